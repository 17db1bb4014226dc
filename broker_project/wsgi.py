"""Django as a WSGI application: the whole of the web process but the long polls."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "broker_project.settings")
application = get_wsgi_application()
