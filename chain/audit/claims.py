"""What a ledger claims of itself (keys, heads), held against what its entries turned out to be.

A claim is collected when it is read, and judged at the end: only then are all changes of keys and all roots known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chain.audit.audit import Audit
from chain.audit.findings import Findings
from chain.errors import ChainError
from chain.keys.rotation import KeyHistory, KeyPair, origin_of, parse_vkeys, vkeys_text
from chain.merkle.head import TreeHead, parse_head
from chain.notes.note import ED25519, VerifierKey, parse, verify


@dataclass(frozen=True, slots=True)
class Claim:
    """A full head that was read at ``where``; ``foreign`` when it came from elsewhere and is not the ledger's own."""

    where: str
    note: bytes
    head: TreeHead
    foreign: bool = False


@dataclass(slots=True)
class Claims:
    """``pinned`` are the keys the caller trusts. ``history`` follows the ledger's keys, None when there are none."""

    pinned: Sequence[VerifierKey]
    findings: Findings = field(default_factory=Findings)
    history: KeyHistory | None = None
    heads: list[Claim] = field(default_factory=list)
    _claimed: list[tuple[str, tuple[KeyPair, ...], int]] = field(default_factory=list)

    def add(self, kind: str, where: str, expected: str, found: str, seq: int = -1) -> None:
        self.findings.add(seq, kind, where, expected, found)

    def keys(self, where: str, text: bytes | None, size: int = 0) -> None:
        """A file of verifier keys, which must name those that sign a head of ``size`` at least. The first one read says
        which keys were the first.
        """
        if text is None:
            return
        try:
            pairs = parse_vkeys(text)
        except ChainError as error:
            self.add("keys", where, "the node's verifier keys, two lines for each pair", str(error))
            return
        if vkeys_text(pairs) != text:
            self.add("keys", where, vkeys_text(pairs).decode(), repr(text)[:400])
        self._claimed.append((where, pairs, size))
        if self.history is None:
            self.history = KeyHistory(pairs[0])

    def settle_keys(self) -> None:
        """No more files of keys come: without any, the pinned keys are taken for the first ones, if they can be."""
        for key in self.pinned:
            known = [pair for _, pairs, _ in self._claimed for pair in pairs]
            if key.type == ED25519 and not known and key.name != origin_of(key.public_key):
                self.add("keys", "the given key", f"the name {origin_of(key.public_key)}", key.name)
        if self.history is None:
            ed25519 = next((key for key in self.pinned if key.type == ED25519), None)
            mldsa = next((key for key in self.pinned if key.type != ED25519), None)
            if ed25519 is not None and mldsa is not None and ed25519.name == origin_of(ed25519.public_key):
                self.history = KeyHistory(KeyPair(ed25519, mldsa))

    def head(self, where: str, note: bytes, *, foreign: bool = False) -> TreeHead | None:
        """Take in a full head; None when it is none."""
        try:
            head = parse_head(parse(note).text)
        except ChainError as error:
            self.add("head", where, "a head signed with both keys", str(error))
            return None
        self.heads.append(Claim(where, note, head, foreign))
        return head

    def changed_keys(self) -> bool:
        """Whether any file of keys names more than one pair."""
        return any(len(pairs) > 1 for _, pairs, _ in self._claimed)

    def newest(self) -> Claim | None:
        """The ledger's own head over the most entries."""
        own = [claim for claim in self.heads if not claim.foreign]
        return max(own, key=lambda claim: claim.head.size, default=None)

    def watched(self) -> frozenset[int]:
        """The sizes whose roots will be asked for."""
        return frozenset(claim.head.size for claim in self.heads)

    def judge(self, audit: Audit) -> None:
        """All entries were audited: hold every claim against them."""
        self._judge_keys()
        for claim in self.heads:
            self._judge_head(claim, audit)

    def _judge_keys(self) -> None:
        if self.history is None:
            return
        pairs = self.history.pairs
        for where, claimed, size in self._claimed:
            shared = min(len(claimed), len(pairs))
            needed = max(self.history.number_at(size) + 1, len(pairs) - 1)
            if claimed[:shared] != pairs[:shared]:
                self.add("keys", where, vkeys_text(pairs).decode(), vkeys_text(claimed).decode())
            elif not needed <= len(claimed) <= len(pairs) + 1:
                self.add("keys", where, f"{len(pairs)} pairs of keys", f"{len(claimed)}")
        known = {key for pair in pairs for key in pair.both}
        for key in self.pinned:
            if key not in known:
                mine = next((other.text for other in pairs[0].both if other.type == key.type), "none")
                self.add("keys", "the keys of the ledger", key.text, mine)

    def _judge_head(self, claim: Claim, audit: Audit) -> None:
        head, where = claim.head, claim.where
        if self.history is not None:
            try:
                verify(claim.note, self.history.at(head.size).both)
            except (ChainError, ValueError) as error:
                if claim.foreign and head.size > audit.entries:  # its keys may be among what is missing
                    self._missing(claim, audit)
                else:
                    self.add("head", where, "a head signed with both keys", str(error))
                return
        root = audit.roots.get(head.size)
        if head.origin != audit.origin:
            self.add("head", where, f"a head of {audit.origin}", f"a head of {head.origin}")
        elif head.size > audit.entries:
            self._missing(claim, audit)
        elif root is not None and root != head.root:
            if claim.foreign:
                self.add(
                    "rolled back", where, f"root {head.root.hex()} at {head.size}", root.hex(), head.size - 1
                )
            else:
                self.add("root", where, head.root.hex(), root.hex(), head.size - 1)

    def _missing(self, claim: Claim, audit: Audit) -> None:
        """``claim`` covers more than there is."""
        kind = "rolled back" if claim.foreign else "truncated"
        expected = f"at least the {claim.head.size} entries that {claim.where} covers"
        self.add(kind, "the ledger", expected, f"{audit.entries} entries", audit.entries)
