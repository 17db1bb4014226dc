"""Everything `manage.py up` needs to run Berth on one machine: embedded servers, a process table, start and end."""
