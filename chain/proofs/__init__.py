"""Proofs that leave the node: receipts and tlog proofs."""
