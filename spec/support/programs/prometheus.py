"""What Prometheus' own parser reads in the file that is named: JSON, name of the family to
its type, help and samples, a list of [name, labels, value]. Fails for what Prometheus
refuses and its parser for Python doesn't: a family or a series that is there twice."""
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
