# rankup in a container, with all that its exercises need: for one learner, for VS Code and Codespaces (.devcontainer/),
# and as the image of JupyterHub's DockerSpawner, where `rankup lab` becomes the learner's server.
#
#     docker build -t rankup .
#     docker run --rm -it -p 127.0.0.1:8888:8888 -v rankup:/home/learner rankup
#
# To grade strangers' code in it, see "In a container" in README.md.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS wheel
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv
RUN python3 -m venv /build && /build/bin/pip install --no-cache-dir 'hatchling>=1.27'
COPY . /src
RUN cd /src && /build/bin/python -m hatchling build -t wheel -d /wheel

FROM ${BASE}
ARG EXTRAS=jobs,serving,hub
# torch without gigabytes of CUDA
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates curl git less make python3 python3-venv tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 --shell /bin/bash learner
COPY constraints.txt /tmp/constraints.txt
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    python3 -m venv /opt/rankup \
 && /opt/rankup/bin/pip install --no-cache-dir --constraint /tmp/constraints.txt "$(echo /wheel/*.whl)[${EXTRAS}]"
ENV PATH=/opt/rankup/bin:$PATH LANG=C.UTF-8 SHELL=/bin/bash
USER learner
WORKDIR /home/learner
EXPOSE 8888
ENTRYPOINT ["tini", "--"]
CMD ["rankup", "lab", "--no-browser", "--ip=0.0.0.0", "--port=8888"]
