"""Phrases of the groups of :mod:`cognition.classification.cues`: words that say together what none of them says.

An apostrophe stands as a blank, as it does between the words of a message.
"""

from __future__ import annotations

from collections.abc import Mapping

PHRASES: Mapping[str, str] = {
    "make": """
        i need | give me | turn it into | turn this into | come up with | set up | help me write | can you write | i
        want | schreib mir
    """,
    "change": """
        rewrite this | clean up | speed up | make it | make this | get rid of | instead of
    """,
    "code_thing": """
        unit tests | unit test | for loop | one liner | list comprehension | type hints | command line | shell script |
        cron job | stored procedure | rest service | web app | web page | data structure | binary search | linked list |
        table driven | test cases | pull request template | config file | github actions | test suite | pure function |
        helper function | bash script | python script | sql query | web server | http server | type definition | github
        action | pre commit | ci pipeline | data class | state machine | hello world | context manager | rate limiter |
        lru cache | priority queue | command to | one line | a command | in python | in rust | in go | in java | in c |
        in typescript | in javascript | in bash | with pandas | no dependencies | standard library | python funktion |
        in pure
    """,
    "quantity": """
        how many | how much | how far | how long | how old | how tall | how often | wie viele | wie viel | wie lange |
        wie oft
    """,
    "moment": """
        right now | at the moment | this morning | this week | next week | last week | is it open | the last hour | in
        my inbox
    """,
    "review": """
        code review | is it ok | is this ok | is it safe | is this safe | what is wrong | what s wrong | anything wrong
        | wrong with | memory leak | race condition | sql injection | edge cases | this code | my code | this function |
        this snippet | this query | this class | this test | this script | this regex | this loop | this method | this
        diff | this pr | this shader | this commit | this change | thread safe | time complexity | does it do | this do
        | line by line | best practice | best practices | look over | code smell | diesen code | dieser code | diese
        funktion | ce code | cette fonction | este código | esta función | этот код | эта функция | эту функцию | этой
        функции | этом коде | does this | is this | will this | can this | could this | should this | what does | why
        does | opinion on | thoughts on | look at | take a look | have a look | any issues | any problems | any concerns
        | problem with | problems with | issue with | issues with | comment on | check my | good enough | ready to merge
        | ok to merge | spot the | find the bug | hold up | stand up | go wrong | what happens if | what happens when |
        before i merge | schau mal | schau dir | que penses tu | qué opinas | что не так | как работает этот
    """,
    "creative_thing": """
        in the style | name for | names for | blog post | product description | short story | in the voice | as if |
        once upon | cover letter | love letter | birthday card | make it sound | sound like | opening line | opening
        lines | first line | back cover | plot twists | elevator pitch | im stil | à la manière | al estilo | в стиле |
        board game | words long | four lines | two lines | in rhyme | that rhymes | from the perspective | point of view
        | written by | tell a story | make up | dear santa | happy birthday | thank you note | out of office | words or
        less | thank you card | love story | bedtime story | fairy tale | sci fi | science fiction | open ending | first
        sentence | last sentence | opening sentence | stand up
    """,
    "knowledge": """
        who was | who is | who wrote | who invented | what is | what are | what was | what were | when did | when was |
        when is | where did | where does | where is | how does | how do | how did | why is | why are | why do | why did
        | difference between | what happened | how big | how deep | is it true | tell me about | find out | what causes
        | was ist | was sind | wer war | wer hat | wie funktioniert | seit wann | qui a | qu est | comment fonctionne |
        quelle est | quelles sont | qué es | quién fue | cómo funciona | cuál es | cuáles son | что такое | кто такой |
        кто написал | как работает | в каком году | which countries | which country | what do we know | did any | is
        there evidence | pros and cons of | what s the difference | history of | origin of | how many people | who
        discovered | who painted | who directed | who founded | who owns | what year | in which | what does the | state
        of | effects of | side effects | causes of | what s known | is known | has anyone | have there been | are there
        any | is there any | what s new | best way | what s the best | how do i get | how common | how safe | how did
        the | what did the | how has | как появился | чем отличается | où se trouve | dónde está | wo liegt | wann wurde
        | woher kommt
    """,
    "analysis_act": """
        what does this say | stands out | what would you conclude | break down | make sense | add up | root cause | what
        s the trend | key message | main message | which of these | which of our | which of the | what do you make of |
        should i | should we | is it worth | fass zusammen | pros and cons | key points | main points | bullet points |
        action items | what changed | is there a | what s your read | what can we | what do these | what does it tell |
        is it the | where is the | where do we | which one | what s going on | most likely | how would you rate | how
        strong | how reliable | what s the story | who is right | what went wrong | what drives | what explains | how
        should we | does it follow | what s missing | read between | in plain words | main arguments | main complaints |
        three main | too high | too low
    """,
    "math": """
        number of orders | different orders | square root | to the power | what s the probability | what is the
        probability | standard deviation | percent of | expected value | closed form | show that | such that | given
        that | for which | solve for | divided by | times table | in terms of | at random | with replacement | number of
        ways | dot product | cross product | how fast | what is the sum | what is the area | what is the volume | area
        of | volume of | sum of | product of | root of | roots of | mean of | average of | number of | power of |
        multiple of | factor of | probability that | chance that | chance of | odds of | what fraction | what percentage
        | times as | of a triangle | of the form | is it prime | in total | in a row | per year | per cent | in base |
        first n | or equal | at least one | let f | let x | let g | let a | consider the | if and only
    """,
    "act_thing": """
        my mailbox | my inbox | my calendar | shopping list | to do list | living room | pull requests | as read | at
        noon | next week | disk space | every morning | every day | every monday | to my | for me | in my | on my | from
        my | to the team | to my boss | in the office | in the cloud | on the server | on the nas | for tomorrow | for
        monday | to everyone | into the folder | to the folder | to the list | on the list | group chat | smart home |
        washing machine | coffee machine | next monday | next friday | tomorrow morning | in 10 minutes | half past |
        quarter past | an hour
    """,
    "act": """
        turn on | turn off | put it | log in | look up | look in | check if | check whether | set a | set an | go
        through | clean out | mach an | mach aus | schalte ein | back up | spin up | shut down | sign me up | book me |
        wake me
    """,
    "greeting": """
        good morning | good evening | good night | what s up | how are you | how s it going | guten morgen | guten abend
        | gute nacht | wie geht | comment ça va | ça va | qué tal | cómo estás | как дела | добрый день | see you
    """,
    "thanks": """
        thank you | well done | nice one | good job | no worries | never mind | vielen dank | merci beaucoup | muchas
        gracias | that s it | got it | my bad | all good
    """,
    "feeling": """
        i feel | i m so | i am so | i think | i don t know | i can t | i hate | i love | my boss | my day | my friend |
        you know | tell me honestly | what do you think | do you think | do you like | do you ever | have you ever | are
        you | who are you | can you do | would you rather | your favorite | your favourite | cheer me up | talk to me |
        i just | i was | i m | i ve been | i am | how was | how about you | and you | your day | long day | big day |
        what s your | do you | did you | were you | have you | i guess | i wish | i hope | so happy | so tired | so sad
        | guess what | by the way | just wanted | to say | let s talk | wanna | gonna | kinda | can you believe | long
        time | i m not | i don t | i didn t | feel like | out of
    """,
}
