"""Finds credentials in texts, before anything of them is stored. Built on the detectors of detect-secrets."""
