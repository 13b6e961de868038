"""Marks of an order that are no sentences: of a conversation that is played to the model, of hidden text, of addresses
with something to fill in, of a call by name; and sentences in scripts that put no blanks between words. Pure.

Every pattern is bounded in each of its repetitions, so that a search takes time in proportion to the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

_LINE = r"\n[ \t]{0,8}"
_ROLE = "(?:system|user|assistant|human|operator|developer)"

_CONVERSATION = (
    rf"<\|?(?:im_start|start_header_id)\|?>[ \t]{{0,4}}{_ROLE}",
    r"\[inst\](?![^\[\n]{0,5}\[/inst)[^\[\n]{0,400}\[/inst",
    r"<(?:<sys>>[^<]{8}|\|system\|>|\|endoftext\|>|end_of_turn>|start_of_turn>|user>|human>)",
    r"\[/?system\]",
    rf"{_LINE}(?:#{{2,4}}|\*\*|={{3,}}|-{{3,}}) ?(?:new )?(?:instructions?|system prompt|system|user|human|assistant)"
    r"(?: message| prompt)?:? ?(?:\*\*|=|-)?:?(?=\n| ?\S)",
    r"\{\{#?system",
    r"</?(?:tool_result|tool_response|function_results?|tool_output|system_prompt|untrusted|tool_call|function_calls?"
    r"|invoke|document)s?>",
    rf"</(?:data|context|results?|output|search_results?)>\s{{0,4}}(?:<|{_ROLE}|new )",
    rf"{_LINE}human: ?\S",
    rf"{_LINE}user: ?(?:yes|ok|okay|sure|go|please|now|fine|great)\b",
)

_GREETING = (
    "(?:(?:dear|hey|hi|hello|kind|good|important|attention|wichtig|atencion|внимание|warning|you)"
    "[,:!]{0,3} )?"
    r"(?:(?:note|notice|hint|ps|p\.s\.|instructions?|message|info|tip|word|hinweis|nota|anweisung|todo"
    "|reminder) )?"
    "(?:(?:to|for|fur|para|pour|als|an|per|dla|для|if you are|if you're|if an|when an|si eres|si vous etes|se sei"
    "|если ты|wenn du|jesli jestes|any|to whom it may concern) )?[(]?"
    "(?:(?:the|all|any|my|your|an?|un|une|una|alle|den|die|das|les|los|ein|eine|large|virtual|automated"
    "|personal) ){0,2}"
)
_NAMES = (
    "(?:ai|ais|assistants?|llms?|bots?|chatbots?|agents?|(?:language |vision |screening )?models?|copilot|chatgpt|gpt"
    r"|claude|gemini|ki|ia|ki-\w{1,14}|assistenten?|asistentes?|assistente|sprachmodelle?|ии|ассистент\w{0,2}|бот"
    r"|asystent\w{0,3}"
    "|helper|crawlers?|scrapers)"
)
_OF_THEM = (
    "(?: (?:agents?|assistants?|models?|systems?|bots?|readers?|crawlers?|ia|ai|only|instructions?|note|notes|hint|here"
    "|reading|of|that|who|handling|processing|browsing|summari[sz]ing|my|this|the|for|page|text|file|document|visitor|somebody"
    "|you|it|reads?|along|de)){0,8}"
)

_TOOLS = (
    "(?:file|payment|calendar|browser|send|mail|email|http|web|shell|run|memory|spawn|delete|write|vault|contact|account|user"
    "|exec|post|db|git)"
)

_HIDDEN = (
    *("<!--", "<meta", "<noscript", "<template", "white on white", "white text", "text layer", "aria-hidden"),
    *(
        "display: ?none",
        "visibility: ?hidden",
        r"font-size: ?[01](?:px|pt)?\b",
        r"left: ?-\d{3,8}",
        r"opacity: ?0\b",
    ),
    *(
        "color: ?(?:white|#fff)",
        'type="?hidden',
        'name="?(?:llm|ai|agent|model)',
        'alt"?[:=]',
        "title=",
        r"data-\w{1,12}=",
    ),
)

PATTERNS: tuple[tuple[str, str], ...] = (
    *(("role_mark", pattern) for pattern in _CONVERSATION),
    (
        "vocative",
        rf"(?:[\n.!?\"'(\[{{>*#/:])[ \t]{{0,4}}(?!(?:assistants?|agents?|ai|bots?|models?|helper) ?:)"
        rf"{_GREETING}{_NAMES}{_OF_THEM}[)\]]?[,:!)]",
    ),
    (
        "false_end",
        "end of (?:the )?(?:tool |web |search )?(?:output|result|results|document|page|data|content|context)"
        rf"\b|{_LINE}(?:user|human|operator)(?: then)? (?:said|says|wrote|replied)",
    ),
    (
        "false_voice",
        r"(?:^|\n)[ \t>\"']{0,8}(?:system|assistant|operator|developer)(?: message| note| notice)?\]?: ?[^\n]{0,80}\b"
        "(?:the user|i will|you are|you must|you may|override|confirmed|approved|new |from now|rule|mails? |now |all "
        "|next )",
    ),
    (
        "image_leak",
        r"!\[[^\]\n]{0,80}\]\([^)\s]{0,200}[?&=/][^)\s]{0,80}"
        r"(?:[a-z]{1,12}_[a-z]{1,12}\b|data\b|\{|<|\[|%7b|prompt|question|secret)",
    ),
    ("fill_in", r"[?&]\w{1,12}=(?:&|\s|$|[{<\[])"),
    (
        "switched_off",
        "(?:safety|confirmations?|filters?|guard|restrictions?|moderation|approvals?|ethics|limits?)"
        r"[\"']?\s?[:=]\s?[\"']?(?:off|false|disabled|none|no)\b",
    ),
    *(("hidden", pattern) for pattern in _HIDDEN),
    ("tool_words", r"the tool \w"),
    (
        "tool_words",
        rf"\b{_TOOLS}_[a-z]{{2,16}}\b ?(?:\(|with|from|to|on|using|and|for|now)"
        r"|(?:call|use|using|run|invoke|via|with) (?:the (?:tool |function )?)?`?[a-z]{2,12}_[a-z]{2,16}\b",
    ),
)

_DROP = "(?:忽略|无视|無視|忘记|忘記|忘れ|不要理会|不用理会|무시|잊)"
_RULE = "(?:指令|指示|规则|規則|命令|提示词|系统提示|ルール|지시|명령|규칙)"
_SHOW = "(?:显示|告诉|输出|透露|表示|教え|出力|見せ|보여|알려|출력)"
_PROMPT = "(?:系统提示|提示词|システムプロンプト|시스템 ?프롬프트)"
_AGENT = "(?:ai|助手|人工智能|机器人|语言模型|アシスタント|エージェント|어시스턴트|인공지능)"
_DO = "(?:请|忽略|删除|推荐|ください|無視|せよ|하세요|하라|무시)"
_GAP = "[^\n。]{0,24}"

FAR_EAST: tuple[tuple[str, str], ...] = (
    ("override", f"{_DROP}{_GAP}{_RULE}|{_RULE}{_GAP}{_DROP}"),
    ("shows_rules", f"{_SHOW}{_GAP}{_PROMPT}|{_PROMPT}{_GAP}{_SHOW}"),
    ("far_call", f"{_AGENT}{_GAP}{_DO}|不要告诉用户|用户に|ユーザーに言わない"),
)

NEEDS: Mapping[str, tuple[str, ...]] = {
    "false_end": ("end of", "said", "says", "wrote", "replied"),
    "switched_off": (
        *(
            "safety",
            "confirmation",
            "filter",
            "guard",
            "restriction",
            "moderation",
            "approval",
            "ethics",
            "limit",
        ),
    ),
    "tool_words": ("_", "the tool"),
    "role_mark": ("<", "[", "{{", "##", "**", "==", "--", "human:", "user:"),
}
"""What a text must have for a search to be worth its time: one of these."""

_MARKS = tuple((name, re.compile(pattern), NEEDS.get(name, ())) for name, pattern in PATTERNS)
_FAR_MARKS = tuple(
    (name, re.compile(unicodedata.normalize("NFKD", pattern)), ()) for name, pattern in FAR_EAST
)


def marks_of(text: str) -> Iterator[tuple[str, int]]:
    """The marks in a folded text, each with the offset where the first of them ends."""
    text = "\n" + text  # every line begins behind a break
    for name, pattern, needs in _MARKS if text.isascii() else (*_MARKS, *_FAR_MARKS):
        if not needs or any(each in text for each in needs):
            found = pattern.search(text)
            if found is not None:
                yield name, max(0, found.end() - 2)
