"""Tests moescope_log.py with real programs: torch.compile, activation checkpointing, ranks, Hugging Face's Trainer and
Lightning, and measures its cost. Usage: real_programs.py [NAME...], or [-NAME...] for all parts except these. Needs
PyTorch 2.4, and for most parts transformers, accelerate and lightning; parts that cannot run print the reason. The last
result is in real_programs.txt in this folder. To renew it:

    python3 tests/python/real_programs.py > tests/python/real_programs.txt

On a machine with two GPUs the parts hf_trainer and ranks test more; their results are below, with "2 of them"."""

import copy
import datetime
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "assets", "python"), HERE]
import moescope_log  # noqa: E402
from moescope_log import MoeLog  # noqa: E402

warnings.filterwarnings("ignore")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
EXPERTS, TOP_K, DIM, TOKENS, LAYERS = 8, 2, 64, 128, 12


class Gate(nn.Module):
    def __init__(self, dim, experts, top_k):
        super().__init__()
        self.num_experts, self.top_k = experts, top_k
        self.weight = nn.Parameter(torch.randn(experts, dim) / dim**0.5)

    def forward(self, x):
        logits = F.linear(x, self.weight)
        weights, indices = logits.softmax(-1).topk(self.top_k, dim=-1)
        return logits, weights / weights.sum(-1, keepdim=True), indices


class Block(nn.Module):
    """Block with dense experts, so that it compiles without data-dependent shapes."""

    def __init__(self, dim=DIM, experts=EXPERTS, top_k=TOP_K):
        super().__init__()
        self.gate = Gate(dim, experts, top_k)
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.register_buffer("chosen", torch.zeros(experts))

    def forward(self, x):
        h = self.norm(x)
        _, weights, indices = self.gate(h)
        y = self.down(F.silu(self.up(h)))
        return x + y * weights.sum(-1, keepdim=True) + 0.01 * weights.max(-1, keepdim=True).values


class Model(nn.Module):
    def __init__(self, layers=LAYERS, wrap=None, **sizes):
        super().__init__()
        self.layers = nn.ModuleList([Block(**sizes) for _ in range(layers)])
        self.wrap = wrap

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) if self.wrap is None else self.wrap(layer, x)
        return x


def truth_of(model, x):
    """Returns the load of each layer, computed by plain PyTorch."""
    loads = []
    with torch.no_grad():
        for layer in model.layers:
            indices = layer.gate.forward(layer.norm(x))[2]
            loads.append(torch.bincount(indices.flatten(), minlength=layer.gate.num_experts).tolist())
            x = layer.forward(x)
    return loads


def rows_of(path):
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    return [[row["tokens_per_expert"] for row in line.get("routers", [])] for line in lines if "step" in line]


def notes_of(path):
    with open(path) as file:
        return [marker["text"] for line in file for marker in json.loads(line).get("markers", [])]


def train_and_compare(folder, model, run=None, steps=3, every=1):
    """Raises AssertionError if a logged row differs from the choices of the model."""
    torch.manual_seed(2)
    path = os.path.join(folder, "log.jsonl")
    run = model if run is None else run
    truth = []
    with MoeLog(path, model, scores_every=every) as log:
        for step in range(steps):
            x = torch.randn(TOKENS, DIM, device=DEVICE)
            truth.append(truth_of(model, x))
            run(x).square().mean().backward()
            model.zero_grad()
            with torch.no_grad():
                run(x)
            log.step(step)
    logged = rows_of(path)
    close = sum(a == b for left, right in zip(logged, truth) for a, b in zip(left, right))
    assert [len(rows) for rows in logged] == [len(rows) for rows in truth], notes_of(path)
    for left, right in zip(logged, truth):
        for a, b in zip(left, right):  # a compiled product may round differently and flip a tie
            assert sum(abs(p - q) for p, q in zip(a, b)) <= 4, "%s is not %s" % (a, b)
    return "%d of %d rows equal" % (close, sum(len(rows) for rows in truth))


def fullgraph(folder):
    torch._dynamo.reset()
    model = Model().to(DEVICE)
    return train_and_compare(folder, model, torch.compile(model, fullgraph=True))


def by_layer(folder):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = Model().to(DEVICE)
    for layer in model.layers:
        layer.compile(fullgraph=True)
    result = train_and_compare(folder, model)
    return result + "; graphs %s" % dict(torch._dynamo.utils.counters["stats"])


def cuda_graphs(folder):
    torch._dynamo.reset()
    model = Model().to(DEVICE)
    return train_and_compare(folder, model, torch.compile(model, mode="reduce-overhead"), steps=6)


def checkpointed(folder):
    results = []
    for reentrant in (False, True):
        model = Model(wrap=lambda layer, x, r=reentrant: checkpoint(layer, x, use_reentrant=r)).to(DEVICE)
        results.append(train_and_compare(folder, model, lambda x: model(x.requires_grad_())))
    return "; ".join(results)


def checkpoint_of_compiled(folder):
    torch._dynamo.reset()
    model = Model(wrap=lambda layer, x: checkpoint(layer, x, use_reentrant=False)).to(DEVICE)
    for layer in model.layers:
        layer.compile(fullgraph=True)
    return train_and_compare(folder, model)


def compiled_checkpoint(folder):
    torch._dynamo.reset()
    model = Model(wrap=lambda layer, x: checkpoint(layer, x, use_reentrant=False)).to(DEVICE)
    return train_and_compare(folder, model, torch.compile(model, fullgraph=True))


def with_mask_compiled(folder):
    class Masked(Model):
        def forward(self, input, attention_mask=None):
            return super().forward(input.reshape(-1, DIM))

    torch._dynamo.reset()
    model = Masked(layers=2).to(DEVICE)
    compiled = torch.compile(model, fullgraph=True)
    path = os.path.join(folder, "log.jsonl")
    with MoeLog(path, model) as log:
        for step in range(3):
            x = torch.randn(4, 32, DIM, device=DEVICE)
            mask = torch.ones(4, 32, dtype=torch.long, device=DEVICE)
            mask[:, 8 + step:] = 0
            compiled(x, attention_mask=mask).sum().backward()
            log.step(step)
    sums = [[sum(load) for load in rows] for rows in rows_of(path)]
    assert sums == [[4 * (8 + step) * TOP_K] * 2 for step in range(3)], sums
    return "slots %s" % sums


def twin_compiled(folder):
    """Another model of the same class ran before, without a log."""
    said = []
    for skip in (True, False):
        torch._dynamo.reset()
        path = os.path.join(folder, "log.jsonl")
        with torch._dynamo.config.patch(skip_nnmodule_hook_guards=skip):
            x = torch.randn(TOKENS, DIM, device=DEVICE)
            torch.compile(Model(layers=2).to(DEVICE))(x).sum().backward()
            model = Model(layers=2).to(DEVICE)
            with MoeLog(path, model) as log:
                torch.compile(model)(x).sum().backward()
                log.step(0)
        with open(path) as file:
            notes = " ".join(marker["text"] for marker in json.loads(file.readlines()[1]).get("markers", []))
        sums = [sum(load) for load in rows_of(path)[0]]
        assert sums == [TOKENS * TOP_K] * 2 or (skip and "no router was seen" in notes), (skip, sums, notes)
        said.append("seen" if sums else "said to be unseen")
    return "%s; with guards of hooks: %s" % tuple(said)


def exported(folder):
    torch._dynamo.reset()
    model = Model(layers=2).to(DEVICE)
    with MoeLog(os.path.join(folder, "log.jsonl"), model):
        program = torch.export.export(model, (torch.randn(4, DIM, device=DEVICE),))
    operators = [str(node.target) for node in program.graph.nodes]
    assert not any("moescope" in name for name in operators)
    return "no operator of the logger in the exported graph"


def copied(folder):
    model = Model(layers=2).to(DEVICE)
    path = os.path.join(folder, "log.jsonl")
    with MoeLog(path, model) as log:
        twin = copy.deepcopy(model)
        buffer = io.BytesIO()
        torch.save(model, buffer)
        assert b"moescope" not in buffer.getvalue()
        buffer.seek(0)
        loaded = torch.load(buffer, weights_only=False)
        x = torch.randn(TOKENS, DIM, device=DEVICE)
        for each in (model, twin, loaded):
            each(x).sum().backward()
        log.step(0)
    sums = [sum(load) for load in rows_of(path)[0]]
    assert sums == [TOKENS * TOP_K] * 2, sums
    torch._dynamo.reset()
    torch.compile(twin, fullgraph=True)(x)
    return "copies count nothing, compile, and need no moescope_log"


def deterministic(folder):
    torch.use_deterministic_algorithms(True)
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    try:
        return train_and_compare(folder, Model().to(DEVICE))
    finally:
        torch.use_deterministic_algorithms(False)


def bad_numbers(folder):
    """Expert numbers far outside the range cause no assertion on the device."""

    class Wild(Gate):
        def forward(self, x):
            logits, weights, indices = super().forward(x)
            indices = indices.clone()
            indices[0], indices[1], indices[2] = -7, self.num_experts, 1 << 40
            return logits, weights, indices

    model = Model(layers=1).to(DEVICE)
    model.layers[0].gate.__class__ = Wild
    path = os.path.join(folder, "log.jsonl")
    with MoeLog(path, model, scores_every=1) as log:
        for step in range(2):
            model(torch.randn(TOKENS, DIM, device=DEVICE)).sum().backward()
            log.step(step)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    assert [sum(rows[0]) for rows in rows_of(path)] == [(TOKENS - 3) * TOP_K] * 2
    return "3 tokens sent nowhere"


def timed_ms(run):
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def cost(folder):
    """Times single steps in turns, each with its own model, because the speed of the machine changes."""
    lines = []
    for compiled in (False, True):
        torch._dynamo.reset()
        # Otherwise PyTorch reuses the graph of one model for another model of its class with other hooks.
        with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
            medians = medians_in_turns({every: step_of(folder, every, compiled) for every in (None, 0, 1)})
        lines.append(("compiled: " if compiled else "eager: ") + ", ".join(
            "%.2f ms %s" % (ms, "without" if every is None else "scores_every=%d" % every)
            for every, ms in medians.items()))
    assert all(rows_of(os.path.join(folder, "cost%d.jsonl" % every)) for every in (0, 1))
    return "; ".join(lines)


def medians_in_turns(steps, turns=100):
    times = {key: [] for key in steps}
    for _ in range(turns + 5):
        for key, step in steps.items():
            times[key].append(timed_ms(step))
    return {key: statistics.median(ms[5:]) for key, ms in times.items()}


def step_of(folder, every, compiled):
    """Returns a training step of a model with 16 layers, logged with scores_every=every; None: not logged."""
    type = torch.bfloat16 if DEVICE == "cuda" else torch.float32
    model = Model(layers=16, dim=1024, experts=64, top_k=8).to(DEVICE, type)
    x = torch.randn(4096, 1024, device=DEVICE, dtype=type)
    log = None if every is None else MoeLog(os.path.join(folder, "cost%d.jsonl" % every), model, scores_every=every)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    run = torch.compile(model, fullgraph=True) if compiled else model
    number = itertools.count()

    def step():
        optimizer.zero_grad()
        loss = run(x).float().square().mean()
        loss.backward()
        optimizer.step()
        if log:
            log.step(next(number), loss=loss)
        else:
            loss.item()

    return step


def tiny_mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM

    torch.manual_seed(1)
    return MixtralForCausalLM(MixtralConfig(
        hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=128, num_local_experts=EXPERTS, num_experts_per_tok=TOP_K, max_position_embeddings=64))


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, place):
        generator = torch.Generator().manual_seed(place)
        ids = torch.randint(3, 128, (32,), generator=generator)
        mask = torch.ones(32, dtype=torch.long)
        mask[24:] = 0  # a quarter of the tokens is padding
        return {"input_ids": ids, "attention_mask": mask, "labels": ids}


def as_loaded(folder):
    """Returns a model from from_pretrained(), which is in eval()."""
    from transformers import MixtralForCausalLM

    tiny_mixtral().save_pretrained(os.path.join(folder, "saved"))
    model = MixtralForCausalLM.from_pretrained(os.path.join(folder, "saved"))
    assert not model.training
    return model


def from_pretrained(folder):
    """Trains in a plain loop without train()."""
    model = as_loaded(folder).to(DEVICE)
    path = os.path.join(folder, "log.jsonl")
    with MoeLog(path, model) as log:
        for step in range(3):
            ids = torch.randint(3, 128, (4, 32), device=DEVICE)
            model(input_ids=ids, labels=ids).loss.backward()
            log.step(step)
    sums = [[sum(load) for load in rows] for rows in rows_of(path)]
    assert sums == [[4 * 32 * TOP_K] * 2] * 3, sums
    return "3 lines of %d slots a layer" % sums[0][0]


def types_on_device(folder):
    """Tests models of transformers whose routers do not return expert numbers on the device, where a wrong index would
    end the process."""
    import transformers_moe
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    wanted = ("switch_transformers", "nllb-moe", "jamba", "longcat_flash", "aria_text", "zaya", "deepseek_v4",
              "gemma4_text", "llama4_text", "ernie4_5_moe", "jetmoe")
    results, kinds = {}, dict(transformers_moe.moe_types())
    for kind in wanted:
        if kind not in kinds:
            results[kind] = "not there"
            continue
        try:
            with torch.device(DEVICE):
                results[kind] = transformers_moe.compare(kind, CONFIG_MAPPING[kind], folder)[0]
        except Exception as error:
            results[kind] = "%s: %s" % (type(error).__name__, str(error).split("\n")[0][:200])
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    assert set(results.values()) == {"equal"}, results
    return "%d types equal on %s" % (len(results), DEVICE)


def edges(folder):
    """Runs the routers of route_edges.py."""
    subprocess.run([sys.executable, os.path.join(HERE, "route_edges.py"), folder], check=True, capture_output=True)
    with open(os.path.join(folder, "names.json")) as file:
        names = json.load(file)
    rows = 0
    for name in names:
        with open(os.path.join(folder, name + ".truth.json")) as file:
            truth = json.load(file)
        logged = [list(row) for row in rows_of(os.path.join(folder, name + ".jsonl"))]
        assert logged == truth["loads"], "%s: %s is not %s" % (name, logged, truth["loads"])
        rows += sum(len(step) for step in logged)
    return "%d cases, %d rows equal" % (len(names), rows)


def scores_option(folder):
    """The argument scores= determines the entropy if the returned weights do not."""

    class Unclear(Gate):
        def forward(self, x):
            logits, weights, indices = super().forward(x)
            return logits, torch.full_like(weights, 0.5), indices

    results = {}
    for kind in ("softmax", "sigmoid"):
        torch.manual_seed(3)
        model = Model(layers=1).to(DEVICE)
        model.layers[0].gate.__class__ = Unclear
        path = os.path.join(folder, kind + ".jsonl")
        with MoeLog(path, model, scores=kind, scores_every=1) as log:
            x = torch.randn(TOKENS, DIM, device=DEVICE)
            model(x).sum().backward()
            log.step(0)
        with torch.no_grad():
            logits = model.layers[0].gate.forward(model.layers[0].norm(x))[0]
        shares = logits.softmax(-1) if kind == "softmax" else logits.sigmoid()
        shares = shares / shares.sum(-1, keepdim=True)
        truth = float(-(shares * shares.log()).sum(-1).mean())
        with open(path) as file:
            logged = json.loads(file.readlines()[1])["routers"][0]["score_entropy"]
        assert abs(logged - truth) < 1e-4, (kind, logged, truth)
        results[kind] = "%s %.4f" % (kind, logged)
    return "entropy as computed: " + ", ".join(results.values())


def norms_by_hand(model, before):
    """Returns for each layer the norms of the gradients and of the updates of the experts' weights, [E] each."""
    found = []
    for layer, weights in zip(model.model.layers, before):
        experts = list(layer.mlp.experts.parameters(recurse=False))
        of = lambda tensors: sum(t.double().flatten(1).square().sum(1) for t in tensors).sqrt().tolist()  # noqa: E731
        found.append((of([p.grad for p in experts]), of([p.detach() - w for p, w in zip(experts, weights)])))
    return found


def expert_norms(folder):
    """Tests a model whose optimizer has no experts of layer 1. Its weights must be equal with and without the log."""
    path, ends = os.path.join(folder, "norms.jsonl"), []
    for logged in (True, False):
        torch.manual_seed(5)
        model = tiny_mixtral().to(DEVICE)
        left_out = set(model.model.layers[1].mlp.experts.parameters())
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p not in left_out], lr=1e-3)
        log = MoeLog(path, model, expert_norms_every=2) if logged else None
        truth = []
        for step in range(5):
            ids = torch.randint(3, 128, (4, 32), device=DEVICE)
            model(input_ids=ids, labels=ids).loss.backward()
            before = [[p.detach().clone() for p in layer.mlp.experts.parameters(recurse=False)]
                      for layer in model.model.layers]
            optimizer.step()
            truth.append(norms_by_hand(model, before))
            optimizer.zero_grad()  # step() no longer finds gradients
            if log:
                log.step(step, lr=1e-3)
        ends.append([p.detach().clone() for p in model.parameters()])
        if log:
            log.close()
            with open(path) as file:
                lines = [json.loads(line) for line in file][1:]
            for step, line in enumerate(lines):
                assert ("specialisation" in line) == (step % 2 == 0), (step, list(line))
                for row in line.get("specialisation", []):
                    gradient, update = truth[step][row["layer"]]
                    for a, b in zip(row["gradient_norm"] + row["update_norm"], gradient + update):
                        assert abs(a - b) <= 1e-5 * abs(b), (step, row, gradient, update)
            assert max(lines[2]["specialisation"][1]["update_norm"]) == 0 < max(lines[2]["specialisation"][1]["gradient_norm"])
    assert all(torch.equal(a, b) for a, b in zip(*ends))
    assert not sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks
    return "6 rows as computed; layer 1: gradient, no update; the same weights without the log"


def hf_trainer(folder):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    results = []
    for checkpointing in (False, True):
        model = tiny_mixtral().eval()
        path = os.path.join(folder, "trainer.jsonl")
        callback = moescope_log.trainer_callback(path, model, expert_norms_every=1)

        class Interrupt(TrainerCallback):
            at = 3

            def on_step_end(self, args, state, control, **_):
                if state.global_step == self.at:
                    raise KeyboardInterrupt

        interrupt = Interrupt()
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=5, logging_steps=1,
            eval_strategy="steps", eval_steps=2, report_to=[], save_strategy="no", disable_tqdm=True,
            gradient_checkpointing=checkpointing)
        trainer = Trainer(model, arguments, train_dataset=Texts(), eval_dataset=Texts(), callbacks=[callback, interrupt])
        with io.StringIO() as nothing:
            keep, sys.stdout = sys.stdout, nothing
            try:
                try:
                    trainer.train()
                except KeyboardInterrupt:
                    pass
                interrupt.at = -1
                trainer.train()
            finally:
                sys.stdout = keep
        sums = [[sum(load) for load in rows] for rows in rows_of(path)]
        cards = max(1, trainer.args.n_gpu)
        assert sums == [[2 * 4 * cards * 24 * TOP_K] * 2] * 5, sums
        with open(path) as file:
            lines = [json.loads(line) for line in file][1:]
        assert all(line.get("loss") for line in lines), lines
        norms = [row for line in lines for row in line["specialisation"]]
        assert len(norms) == 10 and all(min(row["update_norm"]) > 0 and max(row["gradient_norm"]) > 0 for row in norms)
        results.append("%d lines of %d slots a layer" % (len(sums), sums[0][0]))
    return "; with gradient checkpointing: ".join(results)


def lightning_trainer(folder):
    import logging

    import pytorch_lightning as pl

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = as_loaded(folder)

        def training_step(self, batch, _):
            return self.model(**batch).loss

        def validation_step(self, batch, _):
            self.model(**batch)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    path = os.path.join(folder, "lightning.jsonl")
    sys.modules.setdefault("lightning.pytorch", pl)
    trainer = pl.Trainer(max_steps=4, accumulate_grad_batches=2, logger=False, enable_checkpointing=False, devices=1,
                         enable_progress_bar=False, enable_model_summary=False, val_check_interval=2,
                         callbacks=[moescope_log.lightning_callback(path, expert_norms_every=1)])
    loader = torch.utils.data.DataLoader(Texts(), batch_size=4)
    trainer.fit(Module(), loader, loader)
    sums = [[sum(load) for load in rows] for rows in rows_of(path)]
    assert sums == [[2 * 4 * 24 * TOP_K] * 2] * 4, sums
    with open(path) as file:
        norms = [row for line in list(file)[1:] for row in json.loads(line)["specialisation"]]
    assert len(norms) == 8 and all(min(row["update_norm"]) > 0 and max(row["gradient_norm"]) > 0 for row in norms), norms
    return "%d lines of %d slots a layer" % (len(sums), sums[0][0])


def mixtral_compiled(folder):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = tiny_mixtral().to(DEVICE)
    path = os.path.join(folder, "log.jsonl")
    with MoeLog(path, model) as log:
        compiled = torch.compile(model)
        for step in range(3):
            ids = torch.randint(3, 128, (4, 32), device=DEVICE)
            mask = torch.ones_like(ids)
            mask[:, 24:] = 0
            compiled(input_ids=ids, attention_mask=mask, labels=ids).loss.backward()
            log.step(step)
    sums = [[sum(load) for load in rows] for rows in rows_of(path)]
    assert sums == [[4 * 24 * TOP_K] * 2] * 3, sums
    return "3 lines of %d slots a layer; graph breaks: %s" % (
        sums[0][0], dict(torch._dynamo.utils.counters["graph_break"]) or "none")


def generated(folder):
    model = tiny_mixtral().to(DEVICE)
    path = os.path.join(folder, "log.jsonl")
    with MoeLog(path, model) as log:
        model.train()
        model.generate(torch.randint(3, 128, (2, 8), device=DEVICE), max_new_tokens=4, do_sample=False)
        log.step(0)
        model.eval()
        model(torch.randint(3, 128, (2, 8), device=DEVICE)).logits.sum().backward()
        log.step(1)
    sums = [[sum(load) for load in rows] for rows in rows_of(path)]
    assert sums == [[], [16 * TOP_K] * 2], sums
    return "generate() counts nothing, a pass in eval() with gradients does"


def rank_work(rank, world, folder, mode):
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29541")
    nccl = mode == "nccl"
    if nccl:
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if nccl else "gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    device = "cuda:%d" % rank if nccl else "cpu"
    model = Model(layers=2).to(device)
    path = os.path.join(folder, mode + ".jsonl")
    group = None
    if mode == "pipeline":  # stages of two layers
        model.layers = nn.ModuleDict({str(2 * rank + place): layer for place, layer in enumerate(model.layers)})
    layers = list(model.layers.values() if mode == "pipeline" else model.layers)
    if mode == "group":
        group = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    log = MoeLog(path, model, group=group, scores_every=1)
    for step in range(4):
        tokens_of = {"group": rank // 2, "tensor": rank // 2}.get(mode, rank)
        torch.manual_seed(100 * tokens_of + step)
        if not (rank == world - 1 and step == 0 and mode == "uneven"):
            x = torch.randn(TOKENS, DIM, device=device)
            for layer in layers:
                x = layer(x)
            x.sum().backward()
        log.step(step)
    log.close()
    dist.barrier()
    dist.destroy_process_group()


def ranks(folder):
    import torch.multiprocessing as mp

    worlds = {"data": 4, "uneven": 4, "group": 4, "tensor": 4, "pipeline": 2}
    if torch.cuda.device_count() > 1:
        worlds["nccl"] = 2
    counting = {"data": [4] * 4, "uneven": [3, 4, 4, 4], "group": [2] * 4, "tensor": [2] * 4, "pipeline": [1] * 4, "nccl": [2] * 4}
    for mode, world in worlds.items():
        mp.spawn(rank_work, (world, folder, mode), nprocs=world)
        sums = [[sum(load) for load in rows] for rows in rows_of(os.path.join(folder, mode + ".jsonl"))]
        layers = 4 if mode == "pipeline" else 2
        assert sums == [[n * TOKENS * TOP_K] * layers for n in counting[mode]], (mode, sums)
    return ", ".join(worlds)


PARTS = [fullgraph, by_layer, cuda_graphs, checkpointed, checkpoint_of_compiled, compiled_checkpoint, with_mask_compiled,
         twin_compiled, exported, copied, deterministic, bad_numbers, scores_option, edges, types_on_device,
         mixtral_compiled, generated, from_pretrained, expert_norms, hf_trainer, lightning_trainer, ranks, cost]


def main():
    versions = ["PyTorch " + torch.__version__]
    for name in ("transformers", "pytorch_lightning", "accelerate"):
        try:
            versions.append("%s %s" % (name, __import__(name).__version__))
        except ImportError:
            versions.append("no " + name)
    card = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    if DEVICE == "cuda" and torch.cuda.device_count() > 1:
        card += ", %d of them" % torch.cuda.device_count()
    print("%s; %s; %s" % (datetime.date.today(), ", ".join(versions), card))
    failed = 0
    names = {part.__name__ for part in PARTS}
    left_out = {name[1:] for name in sys.argv[1:] if name.startswith("-")}
    wanted = (names - left_out) if left_out or not sys.argv[1:] else set(sys.argv[1:])
    for part in PARTS:
        if part.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                print("%-22s ok: %s" % (part.__name__, part(folder)), flush=True)
            except Exception as error:
                failed += 1
                print("%-22s FAILED: %s: %s" % (part.__name__, type(error).__name__, str(error).strip()[:600]), flush=True)
                if os.environ.get("VERBOSE"):
                    traceback.print_exc()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
