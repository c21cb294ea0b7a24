"""The page that documents the service."""

from __future__ import annotations

from pathlib import Path

import browser
import pytest
from fastapi.testclient import TestClient
from live_service import PATIENCE, listening

from attribune.apps.serve import ServedModel


@pytest.mark.slow
def test_the_page_reads_the_description_below_the_proxy_s_path(client: TestClient) -> None:
    page = client.get("/docs").text
    assert 'url: "/openapi.json"' in page
    assert 'src="/static-offline-docs/swagger-ui-bundle.js"' in page
    assert client.get("/static-offline-docs/swagger-ui-bundle.js").status_code == 200
    below = TestClient(client.app, root_path="/models").get("/docs").text
    assert 'url: "/models/openapi.json"' in below
    assert 'src="/models/static-offline-docs/swagger-ui-bundle.js"' in below


@pytest.mark.slow
def test_paths_have_sentences_and_groups(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    described = [(path, one) for path, methods in document["paths"].items() for one in methods.values()]
    summaries = {path: one["summary"] for path, one in described}
    assert summaries["/v1/predict"] == "Predict one text with its attributes, or many rows"
    assert all(len(summary.split()) > 3 for summary in summaries.values())
    assert {tag for _, one in described for tag in one["tags"]} == {tag["name"] for tag in document["tags"]}


@pytest.mark.slow
@pytest.mark.exhaustive
@browser.needs_browser
@pytest.mark.parametrize("size", browser.SIZES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_in_a_browser(size: str, dark: bool, models: dict[str, ServedModel], tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with listening(models) as (host, port), browser.open_browser(tmp_path, size=size, dark=dark) as driver:
        driver.get(f"http://{host}:{port}/docs")
        opened = WebDriverWait(driver, PATIENCE).until(
            lambda d: d.find_element(By.CSS_SELECTOR, ".opblock-post button")
        )
        opened.click()
        WebDriverWait(driver, PATIENCE).until(lambda d: d.find_element(By.CSS_SELECTOR, ".examples-select select"))
        assert browser.serious_findings(driver) == []
        assert driver.execute_script("return document.documentElement.scrollWidth") <= browser.SIZES[size][0]
        assert ("dark-mode" in driver.execute_script("return document.documentElement.className")) == dark
