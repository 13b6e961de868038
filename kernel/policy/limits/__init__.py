"""How much may be done: gates that hold what somebody else can make grow to its bounds."""
