"""Parses the file of metrics named by the first argument with Prometheus' own parser, and prints
JSON: from the name of each family to its type, help and samples, a list of [name, labels, value].
Fails if the parser refuses the file, or a family has no type. Also fails if a family or a series
occurs twice, which Prometheus refuses and its parser for Python does not."""
import json
import sys

from prometheus_client.parser import text_string_to_metric_families

families, series = {}, set()
with open(sys.argv[1], encoding="utf-8", newline="") as page:
    for family in text_string_to_metric_families(page.read()):
        assert family.name not in families, family.name
        assert family.type != "unknown", family.name
        samples = []
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in series, key
            series.add(key)
            samples.append([sample.name, sample.labels, sample.value])
        families[family.name] = {
            "type": family.type, "help": family.documentation, "samples": samples}
json.dump(families, sys.stdout)
