"""The write path: sequencer, writer, signer, receipts of groups."""
