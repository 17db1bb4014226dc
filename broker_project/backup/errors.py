"""Why a backup could not be made or put back, in words for who typed the command."""


class BackupFailed(Exception):
    """Nothing was left that looks like a whole backup."""


class RestoreRefused(Exception):
    """Nothing was changed in the database that is in use."""
