"""Runs moescope_log.py on tiny models with random weights of every mixture-of-experts model type in the installed
transformers, and compares each logged row with the inputs of the experts. Usage: transformers_moe.py [TYPE...]. Prints
a table; the last result is in transformers_moe.txt in this folder. To renew it on a machine with transformers:

    python3 tests/python/transformers_moe.py > tests/python/transformers_moe.txt

A type is "equal" if every row of every router is equal in all passes: in train() and in eval(), with right padding and
an attention mask, and with both kinds of activation checkpointing if the type has it. Passes under no_grad() must not
count."""

import datetime
import importlib
import inspect
import json
import os
import re
import sys
import tempfile
import traceback
import warnings

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "assets", "python"))
import moescope_log  # noqa: E402

warnings.filterwarnings("ignore")

EXPERTS, TOP_K, BATCH, TOKENS = 8, 2, 2, 32
SMALL = {
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "intermediate_size": 64, "ffn_dim": 64, "d_ff": 64, "ffn_hidden_size": 64,
    "moe_intermediate_size": 32, "expert_ffn_hidden_size": 32, "shared_expert_intermediate_size": 32,
    "shared_intermediate_size": 32, "moe_shared_expert_intermediate_size": 32, "share_expert_dim": 32,
    "intermediate_size_mlp": 64, "dense_intermediate_size": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "num_hidden_layers": 4, "n_layers": 4, "num_layers": 4, "num_decoder_layers": 4, "encoder_layers": 4,
    "decoder_layers": 4, "num_sparse_encoder_layers": 2, "num_sparse_decoder_layers": 2, "encoder_sparse_step": 2,
    "decoder_sparse_step": 2, "num_attention_heads": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "d_kv": 16, "kv_channels": 16,
    "global_head_dim": 16, "num_global_key_value_heads": 2, "vocab_size": 128, "vocab_size_per_layer_input": 128,
    "hidden_size_per_layer_input": 16, "max_position_embeddings": 256, "max_seq_len": 256,
    "num_experts": EXPERTS, "n_routed_experts": EXPERTS, "num_local_experts": EXPERTS, "moe_num_experts": EXPERTS,
    "num_experts_per_tok": TOP_K, "moe_topk": TOP_K, "moe_top_k": TOP_K, "moe_k": TOP_K, "top_k_experts": TOP_K,
    "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "num_dense_layers": 1, "zero_expert_num": 4,
    "q_lora_rank": 32, "kv_lora_rank": 32, "o_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 16, "qk_head_dim": 16, "index_head_dim": 16, "index_n_heads": 2, "index_topk": 8, "n_shared_experts": 1,
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_num_heads": 8, "mamba_head_dim": 16, "mamba_d_state": 16,
    "mamba_n_groups": 1, "n_groups": 1, "ssm_state_size": 16, "mamba_expand": 2, "mamba_dt_rank": 8,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "sliding_window": 16, "expert_capacity": 64, "expert_interval": 2, "router_hidden_size": 32, "depth": 2, "kv_n_heads": 2,
    "output_router_logits": False, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 0, "num_nextn_predict_layers": 0, "moe_latent_size": 32, "embedding_multiplier": 1.0,
    "hidden_dropout": 0.0, "dropout": 0.0, "dropout_rate": 0.0,
}
# Additional settings of some types.
OF_TYPE = {
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "qwen4_exp_text": {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 16,
                       "indexer_compress_ratio": 4},
    "glm5_next_text": {"qk_rope_head_dim": 0, "num_key_value_heads": 4, "head_dim": 8, "index_kpool": 4},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 1e4}},
    "glm4v_moe_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5,
                                           "mrope_section": [2, 1, 1]}},
    "qwen3_omni_moe_talker_text": {"shared_expert_intermediate_size": 32},
    "gemma4_text": {"enable_moe_block": True},
    "mistral4": {"head_dim": 16},
    "zaya": {"num_experts_per_tok": 1},
    "qwen3_omni_moe": {"enable_audio_output": False},
    "ernie4_5_vl_moe_text": {"moe_intermediate_size": [32, 32], "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 2]}},
}


def shrunk(config_class, kind):
    """Returns a tiny configuration of the class, with tiny parts."""
    default = config_class()
    names = set(default.to_dict()) | set(vars(default))
    options = {key: value for key, value in SMALL.items() if key in names}
    if "qk_rope_head_dim" in names:  # latent attention: width of the rotated part, and as many key heads as query heads
        options.update(head_dim=SMALL["qk_rope_head_dim"], num_key_value_heads=SMALL["num_attention_heads"])
    options = {key: value for key, value in options.items() if key in names}
    options.update(OF_TYPE.get(kind, {}))
    for key, value in vars(default).items():
        is_part = hasattr(value, "to_dict") and hasattr(value, "model_type")
        if is_part and key not in options and "talker" not in key and "code2wav" not in key:
            options[key] = shrunk(type(value), value.model_type)
    for attempt in (options, {k: v for k, v in options.items() if k != "head_dim"}):
        try:
            return config_class(**attempt)
        except Exception as error:
            failure = error
    raise failure


def counts_of(config, depth=0):
    """Yields the numbers of experts in a configuration and its parts."""
    for key, value in vars(config).items():
        if re.fullmatch(r"(moe_)?num_(local_)?experts|n_routed_experts|moe_num_experts", key):
            yield max(value) if isinstance(value, (list, tuple)) and value else value or 0
        elif depth < 3 and hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from counts_of(value, depth + 1)


def moe_types():
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for kind in CONFIG_MAPPING:
        try:
            config_class = CONFIG_MAPPING[kind]
            is_on = any(isinstance(n, int) and n > 1 for n in counts_of(config_class()))
            if is_on or "enable_moe_block" in OF_TYPE.get(kind, {}):  # experts are off by default
                yield kind, config_class
        except Exception:
            continue


def built(config):
    """Returns a model of the first class of transformers that accepts the configuration, automatic classes first."""
    import transformers

    for name in ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForImageTextToText",
                 "AutoModelForTokenClassification", "AutoModelForMultimodalLM", "AutoModel"):
        automatic = getattr(transformers, name, None)
        if automatic is None or type(config) not in automatic._model_mapping:
            continue
        return automatic.from_config(config)
    modeling = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    found = [c for c in vars(modeling).values() if inspect.isclass(c) and issubclass(c, transformers.PreTrainedModel)
             and c.config_class is type(config) and not c.__name__.endswith("PreTrainedModel")]
    found.sort(key=lambda c: (not c.__name__.endswith("ForCausalLM"), not c.__name__.endswith("TextModel")))
    if not found:
        raise ValueError("no class of transformers accepts it")
    return found[0](config)


class Spy:
    """Records the inputs of the experts in a forward pass: by name of the block, [T, E] slots of a token per expert."""

    def __init__(self, model):
        self.given, self.watching = {}, False
        for name, module in model.named_modules():
            block = name.rpartition(".")[0]
            if name.endswith("experts") and "shared" not in name and type(module).__name__.endswith("Experts"):
                module.register_forward_pre_hook(lambda m, args, kwargs, block=block: self.see(block, m, args, kwargs),
                                                 with_kwargs=True)
            elif type(module).__name__ == "JetMoeTopKGating":
                module.register_forward_hook(lambda m, args, output, block=block: self.see_jetmoe(block, m, output))

    def see(self, block, module, args, kwargs):
        if not self.watching:
            return
        tensors = [v for v in list(args) + list(kwargs.values()) if isinstance(v, torch.Tensor)]
        experts = getattr(module, "num_experts", EXPERTS)
        if hasattr(module, "route_tokens_to_experts"):  # aria
            tensors = list(module.route_tokens_to_experts(tensors[1]))
        ids = next((t for t in tensors if not t.is_floating_point()), None)
        weights = next((t for t in tensors[1:] if t.is_floating_point() and t.dim() == 2), None)
        if ids is None:  # llama4 sends every token to every expert, times its weight
            block_module = self.llama4_weights.get(block)
            chosen = (block_module > 0).long()
        elif ids.shape[-1] == experts:  # a map; the weights [T, E] of NLLB include the second expert
            chosen = (weights if weights is not None and weights.shape == ids.shape and weights.dim() == ids.dim()
                      else ids) > 0
            chosen = chosen.reshape(-1, experts).long()
        else:
            valid = (ids >= 0) & (ids < experts)
            if type(module).__name__ == "ZayaExperts":
                valid = valid & (weights > 0)
            chosen = torch.zeros(ids.shape[0], experts + 1, dtype=torch.long, device=ids.device)
            chosen = chosen.scatter_add(1, torch.where(valid, ids, experts).long(), torch.ones_like(ids).long())
            chosen = chosen[:, :experts]
        self.given[block] = chosen.detach().cpu()

    def see_jetmoe(self, block, module, output):
        if self.watching:
            sorted_places, experts = output[0], module.num_experts
            slots = output[4].shape[0] * module.top_k
            expert_of_slot = torch.empty(slots, dtype=torch.long, device="cpu")
            expert_of_slot[sorted_places.cpu()] = torch.repeat_interleave(
                torch.arange(experts, device="cpu"), torch.tensor(output[3], device="cpu"))
            chosen = torch.zeros(output[4].shape[0], experts, dtype=torch.long, device="cpu")
            self.given[block] = chosen.scatter(1, expert_of_slot.view(-1, module.top_k), 1)

    def watch_llama4(self, model):
        self.llama4_weights = {}
        for name, module in model.named_modules():
            if type(module).__name__ == "Llama4Router":
                block = name.rpartition(".")[0]
                module.register_forward_hook(
                    lambda m, args, output, block=block: self.llama4_weights.__setitem__(block, output[0].detach()))


def passes(model):
    """Yields the passes: name, preparation of the model, and whether there is a mask."""
    yield "train", lambda: model.train(), False
    yield "eval", lambda: model.eval(), False
    yield "mask", lambda: model.train(), True
    if getattr(model, "supports_gradient_checkpointing", False):
        for reentrant in (False, True):
            yield ("reentrant" if reentrant else "checkpoint"), (
                lambda reentrant=reentrant: (model.train(), model.gradient_checkpointing_enable(
                    gradient_checkpointing_kwargs={"use_reentrant": reentrant}))), False


def inputs_of(model, masked):
    device = next(model.parameters()).device
    ids = torch.randint(3, 120, (BATCH, TOKENS), device=device)
    inputs = {"input_ids": ids}
    if masked:
        mask = torch.ones_like(ids)
        mask[0, TOKENS // 2:] = 0
        inputs["attention_mask"] = mask
    if type(model).__name__.endswith("TalkerModel"):  # has no text embedding
        del inputs["input_ids"]
        # With reentrant checkpointing, a layer whose inputs need no gradient gets no gradient and no row.
        inputs["inputs_embeds"] = torch.randn(BATCH, TOKENS, SMALL["hidden_size"], device=device, requires_grad=True)
    if getattr(model.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = torch.randint(3, 120, (BATCH, TOKENS), device=device)
    return inputs


def trained(model, prepare, inputs, spy):
    prepare()
    spy.given, spy.watching = {}, True
    try:
        output = model(**inputs)
    finally:
        spy.watching = False
    loss = next(v for v in output.values() if isinstance(v, torch.Tensor) and v.is_floating_point())
    loss.float().square().mean().backward()
    return loss


def expected(spy, masked, mask):
    loads = {}
    for block, chosen in spy.given.items():
        if masked and mask is not None and chosen.shape[0] == mask.numel() and "decoder" not in block:
            chosen = chosen[mask.reshape(-1).cpu() != 0]
        loads[block] = chosen.sum(0).tolist()
    return loads


def compare(kind, config_class, folder):
    """Returns (outcome, routers, compared rows, remarks, passes, kinds of scores)."""
    torch.manual_seed(1)
    model = built(shrunk(config_class, kind))
    model = getattr(model, "thinker", model)  # the part that reads text in a model that also speaks
    with torch.no_grad():  # weights large enough for uneven loads
        for name, parameter in model.named_parameters():
            if re.search(r"(router|gate)\b", name) and parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.5)
    spy = Spy(model)
    spy.watch_llama4(model)
    outcomes, kinds, done = [], set(), []
    every = list(passes(model))
    for part in ([p for p in every if p[0] != "reentrant"], [p for p in every if p[0] == "reentrant"]):
        if part:  # one log per kind of checkpointing
            path = os.path.join(folder, kind + ".jsonl")
            with moescope_log.MoeLog(path, model, scores_every=1) as log:
                truth, failed = logged_passes(log, model, spy, part)
            check_that_others_fail_too(failed, model, spy)
            kinds.update(layer._found for layer in log._layers if getattr(layer, "_found", None))
            done += [name for name, _ in truth]
            outcomes.append(judged(path, truth))
    outcome = "equal" if all(o[0] == "equal" for o in outcomes if o[2] or o is outcomes[0]) else "not equal"
    return (outcome, outcomes[0][1], sum(o[2] for o in outcomes), sum((o[3] for o in outcomes), [])[:1],
            ",".join(done), ",".join(sorted(kinds)))


def check_that_others_fail_too(failed, model, spy):
    for name, prepare, inputs in failed:
        try:
            trained(model, prepare, inputs, spy)
        except Exception:
            continue
        raise RuntimeError("the pass %r fails with the logger, but not without it" % name)


def logged_passes(log, model, spy, part):
    """Returns ([(name, loads by block)] of the passes that ran, failed passes)."""
    truth, failed = [], []
    for name, prepare, masked in part:
        inputs = inputs_of(model, masked)
        try:
            loss = trained(model, prepare, inputs, spy)
        except Exception:
            if name == "train":
                raise
            failed.append((name, prepare, inputs))
            log._own_totals(1)  # forgets the pass
            continue
        with torch.no_grad():
            model(**inputs)
        truth.append((name, expected(spy, masked, inputs.get("attention_mask"))))
        log.step(len(truth) - 1, loss=loss.float().mean())
    return truth, failed


def judged(path, truth):
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    names = dict(zip(lines[0]["moe_layers"], lines[0]["router_names"]))
    rows, wrong = 0, []
    for (name, loads), line in zip(truth, lines[1:]):
        logged = {names[row["layer"]].rpartition(".")[0]: row["tokens_per_expert"] for row in line.get("routers", [])}
        rows += len(loads)
        for block, load in loads.items():
            if logged.get(block) != load:
                wrong.append("%s: %s: logged %s, given %s" % (name, block, logged.get(block), load))
        wrong += ["%s: %s: logged, but given nothing" % (name, block) for block in logged if block not in loads]
    notes = [marker["text"] for line in lines[1:] for marker in line.get("markers", []) if "Padding" not in marker["text"]]
    outcome = "not equal" if wrong or not rows else "equal"
    return outcome, len(names), rows, (wrong + notes)[:1]


def main():
    import transformers

    wanted = sys.argv[1:]
    print("%s; transformers %s, PyTorch %s, Python %s; experts %d, top %d, %d x %d tokens" % (
        datetime.date.today(), transformers.__version__, torch.__version__, sys.version.split()[0], EXPERTS, TOP_K, BATCH,
        TOKENS))
    print("%-26s %-10s %7s %5s  %-40s %s" % ("type", "outcome", "routers", "rows", "passes", "scores, remark"))
    tally, total = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, config_class in moe_types():
            if wanted and kind not in wanted:
                continue
            try:
                outcome, routers, rows, remark, done, kinds = compare(kind, config_class, folder)
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                outcome, routers, rows, done, kinds = "error", 0, 0, "", ""
                remark = ["%s: %s (%s:%d)" % (type(error).__name__, " ".join(str(error).split())[:160],
                                              os.path.basename(where.filename), where.lineno)]
                if "no router found" in str(error):
                    outcome = "refused"
            tally[outcome] = tally.get(outcome, 0) + 1
            total += rows
            print("%-26s %-10s %7d %5d  %-40s %s" % (kind, outcome, routers, rows, done, " ".join([kinds] + remark)), flush=True)
    print("%s; %d rows compared" % (", ".join("%d %s" % (n, outcome) for outcome, n in sorted(tally.items())), total))


if __name__ == "__main__":
    main()
