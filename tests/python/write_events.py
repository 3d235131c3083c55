"""Writes event files like TensorBoard's writers, with Google's protobuf for Python (python3-protobuf) and the published
message definitions. Usage: write_events.py FOLDER. The event files in tests/data are from this program."""

import os
import struct
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

F = descriptor_pb2.FieldDescriptorProto


def messages():
    file = descriptor_pb2.FileDescriptorProto(name="events.proto", package="tensorboard", syntax="proto3")

    def message(name, *fields):
        m = file.message_type.add(name=name)
        for number, field, kind, label, type_name in fields:
            m.field.add(name=field, number=number, type=kind, label=label, type_name=type_name)

    one, many = F.LABEL_OPTIONAL, F.LABEL_REPEATED
    message("Dim", (1, "size", F.TYPE_INT64, one, None), (2, "name", F.TYPE_STRING, one, None))
    message("TensorShapeProto", (2, "dim", F.TYPE_MESSAGE, many, ".tensorboard.Dim"),
            (3, "unknown_rank", F.TYPE_BOOL, one, None))
    message("TensorProto", (1, "dtype", F.TYPE_INT32, one, None),
            (2, "tensor_shape", F.TYPE_MESSAGE, one, ".tensorboard.TensorShapeProto"),
            (3, "version_number", F.TYPE_INT32, one, None), (4, "tensor_content", F.TYPE_BYTES, one, None),
            (5, "float_val", F.TYPE_FLOAT, many, None), (10, "int64_val", F.TYPE_INT64, many, None))
    message("HistogramProto", *[(n, f, F.TYPE_DOUBLE, one, None) for n, f in
                                enumerate(["min", "max", "num", "sum", "sum_squares"], 1)],
            (6, "bucket_limit", F.TYPE_DOUBLE, many, None), (7, "bucket", F.TYPE_DOUBLE, many, None))
    message("PluginData", (1, "plugin_name", F.TYPE_STRING, one, None), (2, "content", F.TYPE_BYTES, one, None))
    message("SummaryMetadata", (1, "plugin_data", F.TYPE_MESSAGE, one, ".tensorboard.PluginData"))
    message("Value", (7, "node_name", F.TYPE_STRING, one, None), (1, "tag", F.TYPE_STRING, one, None),
            (9, "metadata", F.TYPE_MESSAGE, one, ".tensorboard.SummaryMetadata"),
            (2, "simple_value", F.TYPE_FLOAT, one, None), (5, "histo", F.TYPE_MESSAGE, one, ".tensorboard.HistogramProto"),
            (8, "tensor", F.TYPE_MESSAGE, one, ".tensorboard.TensorProto"))
    file.message_type[-1].oneof_decl.add(name="value")
    for field in file.message_type[-1].field:
        if field.name in ("simple_value", "histo", "tensor"):
            field.oneof_index = 0
    message("Summary", (1, "value", F.TYPE_MESSAGE, many, ".tensorboard.Value"))
    message("Event", (1, "wall_time", F.TYPE_DOUBLE, one, None), (2, "step", F.TYPE_INT64, one, None),
            (3, "file_version", F.TYPE_STRING, one, None), (5, "summary", F.TYPE_MESSAGE, one, ".tensorboard.Summary"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {m.name: factory.GetPrototype(pool.FindMessageTypeByName("tensorboard." + m.name)) for m in file.message_type}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


M = messages()
LAYERS, EXPERTS, STEPS = 2, 4, 10


def load(layer, expert, step):
    return 10 * (expert + 1) + layer + step


def event(step, **values):
    e = M["Event"](wall_time=1.7e9 + step, step=step)
    for tag, value in values.items():
        v = e.summary.value.add(tag=tag)
        if isinstance(value, float):
            v.simple_value = value
        elif isinstance(value, list):  # a tensor of int64 as bytes
            rows = value if isinstance(value[0], list) else [value]
            v.tensor.dtype = 9
            if isinstance(value[0], list):
                v.tensor.tensor_shape.dim.add(size=len(rows))
            v.tensor.tensor_shape.dim.add(size=len(rows[0]))
            v.tensor.tensor_content = b"".join(struct.pack("<q", n) for row in rows for n in row)
            v.metadata.plugin_data.plugin_name = "tensors"
        elif isinstance(value, tuple):  # a histogram of expert numbers with one bucket per expert
            h = v.histo
            h.min, h.max, h.num, h.sum = 0, len(value) - 1, sum(value), sum(i * n for i, n in enumerate(value))
            h.sum_squares = sum(i * i * n for i, n in enumerate(value))
            h.bucket_limit.extend([i + 0.5 for i in range(len(value))])
            h.bucket.extend(value)
    return record(e.SerializeToString())


def write(folder, name, events):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(record(M["Event"](wall_time=1.7e9, file_version="brain.Event:2").SerializeToString()))
        file.write(b"".join(events))


def main(folder):
    loads = lambda step: [[load(l, e, step) for e in range(EXPERTS)] for l in range(LAYERS)]
    # Scalars of NeMo Automodel: utilization by expert, figures by layer
    nemo = []
    for step in range(STEPS):
        values = {"train_loss": 5.0 - step * 0.25, "lr": 1e-3, "moe/aux_loss_mean": 0.5}
        for l in range(LAYERS):
            total = sum(loads(step)[l])
            values["moe/layer_%d/cv" % l] = 0.25 * (l + 1)
            for e in range(EXPERTS):
                values["moe_expert_utilization/layer_%d_expert_%d" % (l, e)] = load(l, e, step) * EXPERTS / total
        nemo.append(event(step, **values))
    write(folder, "nemo.tfevents.1700000000.host", nemo)
    # Scalars of TorchTitan, and its per-expert buffers as tensors of layers 3 and 5; one damaged record and a truncated end
    titan = []
    for step in range(STEPS):
        values = {"loss_metrics/global_avg_loss": 6.0 - step * 0.5, "grad_norm": 1.5, "throughput(tps)": 1000.0,
                  "memory/max_active(GiB)": 12.0}
        for l in range(LAYERS):
            values["layers.%d.moe.tokens_per_expert" % (3 + 2 * l)] = loads(step)[l]
        titan.append(event(step, **values))
    broken = bytearray(titan[4])
    broken[30] ^= 0xFF
    titan[4] = bytes(broken)
    write(folder, "titan.tfevents.1700000001.host", titan + [titan[-1][:20]])
    # Scalars of Megatron-LM by layer; loads as one tensor [L, E] and as histograms of expert numbers
    megatron = []
    for step in range(STEPS):
        values = {"lm loss": 7.0 - step * 0.125, "grad-norm": 2.0, "learning-rate": 3e-4, "load_balancing_loss": 1.25}
        for l in range(LAYERS):
            values["moe/load_balancing_loss_layer_%d" % l] = 1.0 + l
            values["moe/z_loss_layer_%d" % l] = 0.125
        if step % 2 == 0:
            values["tokens_per_expert"] = loads(step)
        else:
            for l in range(LAYERS):
                values["tokens_per_expert/layer_%d" % l] = tuple(loads(step)[l])
        megatron.append(event(step, **values))
    write(folder, "megatron.tfevents.1700000002.host", megatron)


if __name__ == "__main__":
    main(sys.argv[1])
