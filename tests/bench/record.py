"""The results: a table on the terminal, a JSON file, parts of two pages, and a plot."""

import json
import os
import platform
import statistics
import time

BEGIN = "<!-- tools/bench writes from here -->"
END = "<!-- tools/bench wrote up to here -->"
PLOT = "benchmarks.svg"
# The rows of the page for users: (group, name).
HEADLINES = [
    ("bulk, MTU 1500", "one session"),
    ("bulk, MTU 9000", "one session"),
    ("bulk, MTU 1500", "8 sessions"),
    ("round trips, adaptive beside a blocking kernel client", "64 B, p50"),
    # A run has one of these two groups, which depends on the number of cores.
    ("round trips, adaptive beside a spinning kernel client", "64 B, p50"),
    ("round trips, adaptive beside a spinning kernel client", "64 B, p999"),
    ("round trips, busy beside a spinning kernel client", "64 B, p50"),
    ("round trips, busy beside a spinning kernel client", "64 B, p999"),
    ("requests", "1000 sessions, by elapsed time"),
    ("all-reduce", "4 MiB"),
    ("all-reduce", "64 MiB"),
    ("64 KiB packets, all-reduce", "64 MiB"),
    ("domains", "MTU 1500, one of two"),
    ("under attack", "in, 5 000 SYNs a second"),
    ("under attack", "in, segments of a byte behind gaps"),
    ("under attack", "in, 3 000 ACKs a second with SACK blocks of a few bytes"),
    ("under attack", "in, 64 unread sessions of a client that is stopped"),
    ("under attack", "out, a client with 64 sessions"),
    ("idle", "daemon, the port wakes it (AF_PACKET)"),
]
# Groups and rows of older reports, and what they are called now.
RENAMED = {
    "beside one hog": "beside one computing process",
    "beside a hog on each core": "beside a computing process on each core",
    "without memif's driver": "without memif's whole driver",
}


class Row:
    """One figure: `group` and `name` are what --only names; `beside`: the row it is divided by;
    `line_ns`: how long a cache line took between the two cores, in each round; `made` and `where`:
    when and on which machine it was measured."""

    def __init__(self, group, name, unit, values, command, beside=None, lower_is_better=False,
                 made=None, line_ns=None, where=None):
        self.group, self.name, self.unit, self.command = group, name, unit, command
        self.values = values
        self.beside = beside
        self.lower_is_better = lower_is_better
        self.made = made or utc_now()
        self.where = where or machine()
        self.line_ns = line_ns

    @property
    def median(self):
        return statistics.median(self.values)

    def ratio(self, of=statistics.median):
        """The ratio to the other row. Above 1 is better, whatever the unit."""
        if self.beside is None or not self.beside.values:
            return None
        pair = (of(self.beside.values), of(self.values))
        better, other = pair if self.lower_is_better else pair[::-1]
        return better / other if other else None

    def ratio_of_best(self):
        """The same for the best round of each side. Other load on a core only makes a round
        slower."""
        return self.ratio(min if self.lower_is_better else max)

    def text_beside(self):
        """The other row, by its ratio; without one, the distance of the cores."""
        if self.ratio() is not None:
            return f"{self.ratio():5.2f} (best {self.ratio_of_best():.2f}) x {self.beside.name}"
        return f"cache line {self.line_text()} ns" if self.line_text() else ""

    def line_text(self):
        return ", ".join(str(ns) for ns in self.line_ns or () if ns is not None)

    def as_json(self):
        out = {"group": self.group, "name": self.name, "unit": self.unit,
               "min": min(self.values), "median": self.median, "max": max(self.values),
               "values": self.values, "lower_is_better": self.lower_is_better,
               "made": self.made, "machine": self.where, "command": self.command}
        if self.ratio() is not None:
            out |= {"beside": self.beside.name, "ratio": self.ratio(),
                    "ratio_of_best": self.ratio_of_best()}
        if self.line_ns is not None:
            out["line_ns"] = self.line_ns
        return out


def with_current_names(entry):
    """The entry of a report; "kernel's best, NAME" is beside the row NAME."""
    def current(name):
        for old, new in RENAMED.items():
            name = new if name == old else name.replace(f", {old}", f", {new}")
        return name
    return entry | {key: current(entry[key]) for key in ("group", "name", "beside") if key in entry}


def earlier_rows(path):
    """The rows of an earlier report by (group, name), in its order; none where there is no file."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        try:
            return rows_of(json.load(file))
        except (KeyError, TypeError, ValueError) as error:
            raise SystemExit(f"bench: {path} is not a report of tools/bench: {error!r}") from error


def rows_of(report):
    entries = [with_current_names(entry) for entry in report["rows"]]
    rows = {}
    for entry in entries:
        rows[entry["group"], entry["name"]] = Row(
            *(entry[key] for key in ("group", "name", "unit", "values", "command")),
            lower_is_better=entry["lower_is_better"], made=entry["made"],
            line_ns=entry.get("line_ns"), where=entry.get("machine", report["machine"]))
    for entry in entries:
        rows[entry["group"], entry["name"]].beside = rows.get((entry["group"], entry.get("beside")))
    return rows


def utc_now():
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime())


def figure(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Table:
    def __init__(self, only):
        self.rows = []
        self._only = only
        self._group = None

    def unknown(self, groups):
        """The names of --only that can be no row of these groups."""
        return [name for name in self._only
                if not any(Table([name]).wants_group(group) for group in groups)]

    def wants_group(self, group):
        return not self._only or any(name.startswith(group) for name in self._only) or any(
            group.startswith(name.split("/")[0]) for name in self._only)

    def wants(self, group, name):
        return not self._only or any(f"{group}/{name}".startswith(only) for only in self._only)

    def add(self, row):
        """Takes the row and prints it; returns it, so that others may stand beside it."""
        if not row.values:
            return row
        self.rows.append(row)
        if row.group != self._group:
            self._group = row.group
            print(f"\n{row.group}")
        beside = row.text_beside()
        print(f"  {row.name:58} {figure(row.median):>8} {row.unit:<12}"
              f" {figure(min(row.values)):>7} to {figure(max(row.values)):<7}"
              f"{beside and '   ' + beside}", flush=True)
        return row

    def keep_others(self, earlier, order):
        """Takes rows of an earlier report that were not to be measured now. A row is divided by the
        row that the new report has. `order`: of groups."""
        measured = {(row.group, row.name): row for row in self.rows}
        groups = {row.group for row in self.rows}
        rows = {key: row for key, row in earlier.items()
                if key in measured or key[0] not in groups or not self.wants(*key)} | measured
        for key, row in rows.items():
            beside = row.beside or (earlier[key].beside if key in earlier else None)
            if beside is not None:
                row.beside = rows.get((beside.group, beside.name), beside)
        self.rows = list(rows.values())
        names = [row.group for row in self.rows]
        self.rows.sort(key=lambda row: (next(
            (i for i, name in enumerate(order) if name in row.group), len(order)),
            names.index(row.group)))

    def write_json(self, path):
        """Replaces the file by a complete one. What is no file, such as /dev/stdout, is written."""
        report = {"made": utc_now(), "machine": machine(),
                  "rows": [row.as_json() for row in self.rows]}
        is_file = os.path.isfile(path) or not os.path.exists(path)
        target = os.path.realpath(path)
        with open(f"{target}.new" if is_file else path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
        if is_file:
            os.replace(file.name, target)

    def write_docs(self, page, log):
        """Puts the headline rows and the plot into the users' page, and all rows into the log."""
        replace_between_markers(page, self.headlines())
        replace_between_markers(log, self.figures())
        with open(os.path.join(os.path.dirname(page), PLOT), "w", encoding="utf-8") as file:
            file.write(plot([row for row in self.rows if row.unit == "Gb/s"]))

    def when_and_where(self):
        first, last = (choose(row.made for row in self.rows) for choose in (min, max))
        rounds = sorted({len(row.values) for row in self.rows if len(row.values) > 1})
        machines = "; ".join(dict.fromkeys(row.where for row in self.rows))
        return (f"Measured {first} to {last} UTC on {machines}; medians of "
                f"{' or '.join(map(str, rounds))} rounds, alternating.")

    def headlines(self):
        lines = [self.when_and_where(), "",
                 "| measurement | Lyre | compared with | ratio | ratio of the best rounds |",
                 "|---|---|---|---|---|"]
        for group, name in HEADLINES:
            row = next((row for row in self.rows if (row.group, row.name) == (group, name)), None)
            if row is None:
                continue
            other, ratio, best = ("", "", "") if row.ratio() is None else (
                f"{row.beside.name}: {figure(row.beside.median)} {row.beside.unit}",
                f"{row.ratio():.2f}", f"{row.ratio_of_best():.2f}")
            lines.append(f"| {group}: {name} | {figure(row.median)} {row.unit} | {other} | {ratio} "
                         f"| {best} |")
        return "\n".join([*lines, "", f"![goodput]({PLOT})"]) + "\n"

    def figures(self):
        lines = [self.when_and_where()]
        group = None
        for row in self.rows:
            if row.group != group:
                group = row.group
                lines += ["", f"**{group}**", "", "| | median | min to max | ratio | of the best |",
                          "|---|---|---|---|---|"]
            ratio = row.ratio()
            beside, best = (row.text_beside(), "") if ratio is None else (
                f"{ratio:.2f} × {row.beside.name}", f"{row.ratio_of_best():.2f}")
            lines.append(
                f"| {row.name} | {figure(row.median)} {row.unit} | "
                f"{figure(min(row.values))} to {figure(max(row.values))} | {beside} | {best} |")
        return "\n".join(lines) + "\n"


def replace_between_markers(path, text):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    if BEGIN not in page or END not in page:
        raise SystemExit(f"bench: {path} has no markers for the figures")
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{text}{END}{after}")


def machine():
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} cores ({model}), Linux {platform.release()}"


def plot(rows, width=760, bar=16, gap=6, left=330):
    """Horizontal bars with their spread, as SVG."""
    top = 10
    height = top + len(rows) * (bar + gap) + 10
    scale = (width - left - 70) / max([max(row.values) for row in rows] or [1])
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, row in enumerate(rows):
        y = top + i * (bar + gap)
        middle = y + bar / 2
        colour = "#888" if row.beside is None else "#2b6cb0"
        out += [f'<text x="{left - 8}" y="{middle + 4}" text-anchor="end">{row.group}: '
                f'{row.name}</text>',
                f'<rect x="{left}" y="{y}" width="{row.median * scale:.1f}" height="{bar}" '
                f'fill="{colour}"/>',
                f'<line x1="{left + min(row.values) * scale:.1f}" y1="{middle}" '
                f'x2="{left + max(row.values) * scale:.1f}" y2="{middle}" stroke="black"/>',
                f'<text x="{left + max(row.values) * scale + 6:.1f}" y="{middle + 4}">'
                f'{figure(row.median)} {row.unit}</text>']
    return "\n".join(out + ["</svg>"]) + "\n"
