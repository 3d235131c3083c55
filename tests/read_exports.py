"""Readers of exported files without code of MoEScope: plain Python, written from the published descriptions of the formats.

  read_exports.py events FILE        {"tag": [[step, value], ...]} of a TensorBoard event file; verifies every checksum
  read_exports.py safetensors FILE   {"name": {"dtype", "shape", "sum"}} and "__metadata__"
  read_exports.py trace FILE         checks a Chrome trace against its format; prints the counts of events by phase and
                                     name, threads, the last end and the longest overlap in us
"""
import array
import json
import struct
import sys


def crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return table


TABLE = crc32c_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        header = data[at:at + 8]
        (length,) = struct.unpack("<Q", header)
        (header_sum,) = struct.unpack("<I", data[at + 8:at + 12])
        assert header_sum == masked_crc32c(header), "checksum of a record's length"
        body = data[at + 12:at + 12 + length]
        (body_sum,) = struct.unpack("<I", data[at + 12 + length:at + 16 + length])
        assert body_sum == masked_crc32c(body), "checksum of a record"
        yield body
        at += 16 + length
    assert at == len(data)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            return value, at


def fields(message):
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(message, at)
        elif kind == 1:
            value, at = struct.unpack("<d", message[at:at + 8])[0], at + 8
        elif kind == 5:
            value, at = struct.unpack("<f", message[at:at + 4])[0], at + 4
        else:
            assert kind == 2, kind
            length, at = varint(message, at)
            value, at = message[at:at + length], at + length
        yield key >> 3, value


def events(path):
    tags = {}
    with open(path, "rb") as file:
        for number, record in enumerate(records(file.read())):
            event = list(fields(record))
            if number == 0:
                assert (3, b"brain.Event:2") in event, event
                continue
            step = dict(event).get(2, 0)
            for value in [v for key, v in fields(dict(event)[5]) if key == 1]:
                parts = dict(fields(value))
                tags.setdefault(parts[1].decode(), []).append([step, parts[2]])
    return tags


def safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    out = {"__metadata__": header.pop("__metadata__", {})}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        values = array.array("f", data[8 + length + begin:8 + length + end])
        out[name] = {"dtype": tensor["dtype"], "shape": tensor["shape"], "sum": sum(values), "count": len(values)}
    return out


# Rules of the Trace Event Format (JSON object form): metadata events name processes and threads in args.name and label
# processes in args.labels, complete events have a name, whole process and thread ids, and a start and a length in
# microseconds; counters have numbers.
def check_trace_event(event, named):
    assert isinstance(event["name"], str) and event["name"], event
    assert type(event["pid"]) is int, event
    if event["ph"] == "M":
        assert event["name"] in ("process_name", "thread_name", "process_labels", "process_sort_index",
                                 "thread_sort_index"), event
        if event["name"] == "process_labels":
            assert isinstance(event["args"]["labels"], str) and event["args"]["labels"], event
        if event["name"].endswith("_name"):
            assert isinstance(event["args"]["name"], str) and event["args"]["name"], event
            named.add((event["pid"], event["tid"]) if event["name"] == "thread_name" else event["pid"])
        return
    assert type(event["ts"]) in (int, float) and event["ts"] >= 0, event
    if event["ph"] == "X":
        assert type(event["tid"]) is int, event
        assert type(event["dur"]) in (int, float) and event["dur"] >= 0, event
        assert event["pid"] in named and (event["pid"], event["tid"]) in named, ("not named", event)
    elif event["ph"] == "C":
        assert all(type(value) in (int, float) for value in event["args"].values()), event
    else:
        assert event["ph"] == "i" and event.get("s", "t") in "gpt", event


def trace(path):
    with open(path) as file:
        data = json.load(file)
    assert data.get("displayTimeUnit", "ms") in ("ms", "ns")
    counts, lanes, names, named = {}, {}, {}, set()
    for event in data["traceEvents"]:
        check_trace_event(event, named)
        counts[event["ph"]] = counts.get(event["ph"], 0) + 1
        if event["ph"] == "X":
            names[event["name"]] = names.get(event["name"], 0) + 1
            lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    overlap = end = 0
    for spans in lanes.values():
        spans.sort()
        end = max(end, spans[-1][1])
        for before, after in zip(spans, spans[1:]):
            overlap = max(overlap, before[1] - after[0])
    return {"counts": counts, "names": names, "overlap_us": overlap, "end_us": end, "lanes": len(lanes)}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
