"""What a person says in a chat to the node itself: done at once, on record, and answered like a message."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from chain.ledger.ledger import Draft
from kernel.abi import Inbound
from kernel.control.asked import Asked
from kernel.errors import NotFound
from kernel.kernel import Kernel
from kernel.message.chat_commands import Command, PreferModel, StopTurn, command_of, shown_model
from kernel.message.messaging import OPERATOR, Outgoing
from kernel.operations.messages import Said, Sent
from kernel.policy.asker import Asker
from kernel.policy.proposal import AskModel
from kernel.state.recorder import ledger_errors
from kernel.turn.cancels import cancelled_by


class ChatCommands:
    """``providers`` are those that are configured."""

    def __init__(self, kernel: Kernel, providers: Container[str]) -> None:
        self._kernel = kernel
        self._providers = providers

    def command_in(self, request: Said, inbound: Inbound | None) -> Command | None:
        """The command that a message is; None: it is none. Raises Invalid."""
        if inbound is None or not inbound.chat:
            return None
        return command_of(request.text, self._providers)

    async def obey(
        self,
        asked: Asked,
        request: Said,
        inbound: Inbound,
        target: str,
        command: Command,
        key: tuple[str, str],
    ) -> Sent:
        """Do it. ``key``: the digests under which it is known when it comes again, empty for none. Raises NotFound,
        Refused, Conflict, and what policy has against it.
        """
        seq, trace = asked.record(target=request.named, session=request.session, text=request.text)
        out = Outgoing(OPERATOR, target, "", "", trace, seq)
        match command:
            case PreferModel(asks=True):
                address = self._kernel.chats.address_of(target, inbound)
                one = self._kernel.state.preferences.get(address)
                model = shown_model("", "") if one is None else shown_model(one.provider, one.model)
                reply, turn = f"This chat is answered by {model}.", ""
            case PreferModel(provider, model):
                self._check_allowed(target, inbound, provider, model)
                unit = self._kernel.recorder.unit()
                address = self._kernel.chats.prefer(
                    unit, out, inbound, provider, model, self._counts_for(inbound)
                )
                with ledger_errors():
                    self._kernel.recorder.commit(unit)
                reply, turn = f"From now on this chat is answered by {shown_model(provider, model)}.", ""
            case StopTurn():
                address = self._kernel.chats.address_of(target, inbound)
                reply, turn = self._stopped(address, inbound, asked)
        with ledger_errors():
            if key[0]:
                self._kernel.recorder.commit([_keyed(seq, address, *key)])
            await self._kernel.recorder.barrier()
        return {"message": "", "address": address, "seq": seq, "status": "ok", "reply": reply, "turn": turn}

    def _check_allowed(self, target: str, inbound: Inbound, provider: str, model: str) -> None:
        """That who says so may ask that model: it would be asked for others of his chat too. Raises what policy has
        against it.
        """
        if not (provider or model):
            return
        kernel, asker = self._kernel, Asker(OPERATOR, "control", identity=inbound.who)
        named = provider or kernel.chats.provider_of(target, inbound)
        kernel.policy.require(asker, AskModel(*kernel.gateway.resolve(named, model), (), 0))

    def _counts_for(self, inbound: Inbound) -> str:
        """It may make a session, and is on record: so it counts as a message does."""
        asker = Asker(OPERATOR, "control", identity=inbound.who)
        return self._kernel.env.terms.rates.counts_for(asker, self._kernel.state.rates)

    def _stopped(self, address: str, inbound: Inbound, asked: Asked) -> tuple[str, str]:
        try:
            mail = self._kernel.cancels.find(address)
        except NotFound:
            return "Nothing is being answered.", ""
        if mail.inbound is not None and mail.identity.name != inbound.who.name:
            return "What is being answered here was asked by somebody else, who can stop it.", ""
        with ledger_errors():
            cut = self._kernel.cancels.cancel(mail, cancelled_by(inbound.user or asked.by, "/stop"))
        return "Stopped.", cut.turn


def _keyed(seq: int, address: str, key: str, request: str) -> Draft:
    body: dict[str, Any] = {
        "id": f"m{seq}", "to": address, "key": key, "request": request, "by": "", "status": "ok"
    }  # fmt: skip
    return Draft("message.keyed", body, 0, f"m{seq}", b"", seq)
