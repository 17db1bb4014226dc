# One image for every role; docker-compose.yml says which command is which role.
#
# It is made from the lock alone: every package by its hash, as a wheel, so nothing is compiled here and two builds hold
# the same code. To pin the base as well: --build-arg PYTHON=python:3.12-slim@sha256:…
ARG PYTHON=python:3.12-slim

FROM ${PYTHON} AS build
# What is merely imported here leaves no byte code with the time of this build in it.
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
RUN python -m venv --without-pip /opt/berth
COPY requirements-image.lock /tmp/
RUN python -m pip --python /opt/berth install --no-deps --only-binary :all: --no-compile --require-hashes \
    -r /tmp/requirements-image.lock
COPY . /srv/berth
WORKDIR /srv/berth
ENV PATH=/opt/berth/bin:$PATH BERTH_HOME=/srv/berth/var
# DEBUG stands in for the keys that the settings ask for; nothing is served, and nothing of it is kept.
RUN DEBUG=1 python manage.py collectstatic --no-input --verbosity 0
# Not checked against the sources, which never change in an image: that also makes the files the same in every build.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/berth/lib /srv/berth

FROM ${PYTHON}
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /srv/berth --shell /usr/sbin/nologin berth
COPY --from=build /opt/berth /opt/berth
COPY --from=build /srv/berth /srv/berth
# Code and static files belong to root; what runs may write its own folder only (beat keeps its schedule there, and files lie there).
RUN mkdir -p /srv/berth/var/files && chown berth:berth /srv/berth/var /srv/berth/var/files
ENV PATH=/opt/berth/bin:$PATH \
    BERTH_HOME=/srv/berth/var \
    DJANGO_SETTINGS_MODULE=broker_project.settings \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /srv/berth
# By number, so that an orchestrator can see that it is not root.
USER 10001:10001
EXPOSE 8000
CMD ["uvicorn", "broker_project.front:app", "--host", "0.0.0.0", "--port", "8000", "--no-access-log", \
     "--timeout-graceful-shutdown", "5"]
