"""Operations that look at turns."""
