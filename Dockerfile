# A prediction service: docker build -t attribune . && docker run -p 8000:8000 -e ATTRIBUNE_SERVE_KEYS -v $PWD/runs/stars:/run/stars attribune /run/stars
FROM python:3.11-slim
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt torch && pip install --no-cache-dir -c constraints.txt ".[serve]"
RUN useradd --create-home attribune
USER attribune
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://localhost:8000/health', timeout=3)"]
ENTRYPOINT ["attribune", "serve", "--host", "0.0.0.0", "--port", "8000"]
