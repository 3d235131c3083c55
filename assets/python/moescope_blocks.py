"""Statistics of the low-precision operands of a training, for MoeLog.log_blocks(), which describes the arguments.

Copy this file and moescope_formats.py beside moescope_log.py. The products of the chosen modules are found while the
model runs: the forward pass of a module with one weight of two dimensions, as nn.Linear, is one product; within a module
with weights of three dimensions, as for grouped experts, the products of these weights are. Each operand is quantized
where it is, by the rules of moescope_formats.py, and only sums and samples leave the device, after the step.
"""

import base64
import functools
import gc
import json
import math
import numbers
import re
import sys

import torch
import torch.overrides

from moescope_formats import Sums, format_named, quantize, squared_errors, stored

_CHUNK = 1 << 24  # elements that are quantized at once
_TOGETHER = {"cpu": 1 << 19}  # elements of several operands that are quantized at once; elsewhere _CHUNK
_MOST_WAITING = 1 << 28  # elements of operands that wait for others of their shape


# Operands.


class Operand:
    """One operand of the products of a layer with its statistics, from one or several tensors.

    forms    the format of the training, or in which it would be, then those of the what-if
    pieces   number of tensors that are expected
    most     elements that are quantized, of all pieces together: whole bands of 128 rows, evenly spread
    samples  blocks that are kept, each with the block before and the block after it
    """

    def __init__(self, forms, pieces, most, samples):
        self.forms, self.name, self.stored = forms, forms[0].name, False
        self.sums, self.errors, self.sampled = None, None, []  # errors: [formats of the what-if, 2]
        self._missing, self._most, self._samples = pieces, max(1, most // pieces), samples
        self._per_piece = max(1, samples // pieces)
        self._parts = []

    def add(self, values, row_group=None):
        """values: [groups, rows, cols] or [rows, cols] of any float type; the last axis is the contracting dimension,
        and formats with a scale for the tensor have one for each group. row_group: experts of the rows [rows], if they
        are of several, and the number of experts; the scale for the tensor is then that of the expert."""
        values = values.detach()
        values = values if values.dim() == 3 else values[None]
        if values.numel() == 0:
            return
        largest = values.abs().amax(2)
        amax = _amax_of_rows(largest, row_group) if any(form.has_tensor_scale for form in self.forms) else None
        for group, first, last in _bands(values, self._most):
            self._parts.append((values[group, first:last].clone(), None if amax is None else amax[group, first:last]))
        self._sample(values, largest, self.forms[0].block or 32)
        self._missing -= 1

    def add_stored(self, stored):
        """Takes a tensor that another library has quantized: its own scales and decoded values."""
        self.name, self.stored = stored.name, True
        sums = stored.row()
        if self.sums is not None:  # of another expert
            sums.add(self.sums.values)
        self.sums = sums
        self._sample(stored.decoded[None], stored.decoded[None].abs().amax(2), stored.block)

    def is_complete(self):
        return self._missing <= 0

    def waiting(self):
        """Returns the number of elements that are not quantized yet."""
        return sum(part.numel() for part, _ in self._parts)

    def matrices(self):
        """Returns [(values [rows, cols], largest magnitude of the tensor of each row or None)] and forgets them."""
        parts, self._parts = self._parts, []
        apart = not parts or any(form.share == "128x128" for form in self.forms)
        return parts if apart else [_joined(parts)]

    def add_sums(self, sums, errors):
        if self.sums is None:
            self.sums = Sums(sums.device)
        self.sums.add(sums)
        self.errors = errors if self.errors is None else self.errors + errors

    def _sample(self, values, largest, block):
        count = min(self._per_piece, self._samples - sum(len(part) for part in self.sampled))
        groups, rows, cols = values.shape
        per_row = -(-cols // block)
        total = groups * rows * per_row
        count = min(count, total)
        if count <= 0:
            return
        places = torch.arange(count, device=values.device) * total // count
        flat = values.reshape(groups * rows, cols)
        if not self.sampled:  # the largest value is in the sample, so that the scale of the tensor follows from it
            top = largest.reshape(-1).argmax().reshape(1)
            places[:1] = top * per_row + flat.index_select(0, top).abs().argmax() // block
        width = min(cols, 3 * block)
        first = ((places % per_row - 1) * block).clamp(0, -(-(cols - width) // block) * block)
        columns = first[:, None] + torch.arange(width, device=values.device)
        chosen = flat[(places // per_row)[:, None], columns.clamp(max=cols - 1)]
        chosen = chosen.masked_fill(columns >= cols, 0)  # a last block that is shorter is filled with zeros
        self.sampled.append(chosen.to(torch.bfloat16 if values.dtype == torch.bfloat16 else torch.float32))


def quantize_together(operands):
    """Quantizes what the operands hold. Those of one shape and format are one matrix, so that a GPU gets few kernels."""
    alike = {}
    for operand in operands:
        for values, amax in operand.matrices():
            key = values.shape, values.dtype, values.device, tuple(form.name for form in operand.forms)
            alike.setdefault(key, []).append((operand, values, amax))
    for (shape, _, device, _), entries in alike.items():
        squares = any(form.share == "128x128" for form in entries[0][0].forms)
        most = _TOGETHER.get(device.type, _CHUNK)
        number = 1 if squares and shape[0] % 128 else max(1, most // shape.numel())
        for first in range(0, len(entries), number):
            _quantize_alike(entries[first:first + number])


def _quantize_alike(entries):
    """entries: [(operand, values, amax)], of one shape; several have at most _CHUNK elements."""
    forms, count = entries[0][0].forms, len(entries)
    values, amax = _joined([entry[1:] for entry in entries])
    sums, errors = Sums(values.device, count), []
    tall = max(128, _CHUNK // values.shape[1] // 128 * 128) if count == 1 else values.shape[0]
    for first in range(0, values.shape[0], tall):
        part, row_amax = values[first:first + tall].float(), None if amax is None else amax[first:first + tall]
        quantize(part, forms[0], sums, row_amax)
        errors.append([squared_errors(part, form, row_amax, count) for form in forms[1:]])
    form_errors = [sum(part_errors) for part_errors in zip(*errors)]
    errors = torch.stack(form_errors, 1) if form_errors else sums.values.new_zeros(count, 0, 2)
    for place, (operand, _, _) in enumerate(entries):
        operand.add_sums(sums.values[place], errors[place])


def _joined(parts):
    values, amax = zip(*parts)
    return torch.cat(values), None if amax[0] is None else torch.cat(amax)


def _amax_of_rows(largest, row_group):
    """Returns [groups, rows, 1]: the largest magnitude of the tensor that a row belongs to. largest: [groups, rows], of
    the rows."""
    largest = largest.float()
    if row_group is None:
        return largest.amax(1).reshape(-1, 1, 1).expand(-1, largest.shape[1], 1)
    experts, number = row_group
    expert_amax = torch.zeros(number, device=largest.device).scatter_reduce(0, experts, largest.reshape(-1), "amax")
    return expert_amax[experts].reshape(1, -1, 1)


def _bands(values, most):
    """Returns [(group, first row, last row)]: all rows, or bands of whole multiples of 128 rows, evenly spread."""
    groups, rows, cols = values.shape
    if values.numel() <= most:
        return [(group, 0, rows) for group in range(groups)]
    wanted = max(128, most // cols)
    if rows < wanted:
        count = max(1, wanted // rows)
        return [(i * groups // count, 0, rows) for i in range(count)]
    count = 8 if wanted >= 8 * 128 else 1
    tall = wanted // count // 128 * 128
    starts = [i * (rows - tall) // max(1, count - 1) // 128 * 128 for i in range(count)]
    return [(i * groups // count, start, start + tall) for i, start in enumerate(starts)]


def _encoded(sampled):
    """Returns type and values of a sample as base64 for URLs, little-endian, without padding."""
    if sampled.dtype == torch.bfloat16:
        kind, raw = "bf16", sampled.view(torch.int16).cpu().numpy().astype("<i2")
    else:
        kind, raw = "f32", sampled.cpu().numpy().astype("<f4")
    return kind, base64.urlsafe_b64encode(raw.tobytes()).decode().rstrip("=")


# The products of a model.

# Names of modules and parameters, and the weight's class and name in MoEScope; the first match counts.
_NAMES = (
    (r"shared.*(fc1|gate_up_proj|gate_proj|w13|w1)(\d|\.|_|$)", "shared_experts w1"),
    (r"shared.*(fc2|down_proj|w2)(\d|\.|_|$)", "shared_experts w2"),
    (r"shared.*(up_proj|w3)(\d|\.|_|$)", "shared_experts w3"),
    (r"experts.*(fc1|gate_up_proj|gate_proj|w13|w1)(\d|\.|_|$)", "experts w1"),
    (r"experts.*(fc2|down_proj|w2)(\d|\.|_|$)", "experts w2"),
    (r"experts.*(up_proj|w3)(\d|\.|_|$)", "experts w3"),
    (r"(^|\.)(q_a_proj|wq_a)$", "attention wq_a"), (r"(^|\.)(q_b_proj|wq_b)$", "attention wq_b"),
    (r"(^|\.)(kv_a_proj_with_mqa|wkv_a)$", "attention wkv_a"), (r"(^|\.)(kv_b_proj|wkv_b)$", "attention wkv_b"),
    (r"(^|\.)(q_proj|wq|linear_qkv|qkv|qkv_proj)$", "attention wq"),
    (r"(^|\.)(o_proj|wo|out_proj|linear_proj)$", "attention wo"),
    (r"(^|\.)(lm_head|output_layer|output)$", "head output"),
    (r"(fc1|gate_up_proj|gate_proj|w13|w1)$", "dense_ffn w1"), (r"(fc2|down_proj|w2)$", "dense_ffn w2"),
    (r"(up_proj|w3)$", "dense_ffn w3"),
)
_WEIGHTS = {weight for _, weight in _NAMES} | {"router_gate gate"}
_PRODUCTS = ("linear", "matmul", "__matmul__", "mm", "bmm")


def _operand_dtype(tensor):
    """Returns the type to which autocast casts factors of products; that of the tensor without autocast."""
    kind = tensor.device.type
    try:
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype
    except (TypeError, AttributeError):  # before PyTorch 2.4
        if kind == "cpu":
            return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else tensor.dtype
        return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else tensor.dtype


class _Products(torch.overrides.TorchFunctionMode):
    """Finds the products of a module's weights within its forward pass, also of weights that were cast, transposed or
    sliced before."""

    def __init__(self, weights, take):
        super().__init__()
        self._origins = {id(weight): (weight, name) for name, weight in weights}  # keeps the tensors, so that ids last
        self._take = take

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        name = getattr(func, "__name__", "")
        grouped = "grouped_mm" in name
        if len(tensors) >= 2 and (name in _PRODUCTS or grouped):
            found = self._origin(tensors[1])
            if found is not None and isinstance(out, torch.Tensor):
                weight = tensors[1] if name == "linear" else tensors[1].transpose(-2, -1)
                ends = kwargs.get("offs", tensors[2] if grouped and len(tensors) > 2 else None)
                self._take(found[1], tensors[0], weight, out, ends)
        elif tensors:
            found = self._origin(tensors[0])
            for each in out if isinstance(out, (tuple, list)) else [out]:
                if found is not None and isinstance(each, torch.Tensor) and each.numel() > 1:
                    self._origins[id(each)] = each, found[1]
        return out

    def _origin(self, tensor):
        """Returns the tensor's entry, or that of the tensor of which it is a view: before PyTorch 2 indexing a tensor
        does not call the mode."""
        found = self._origins.get(id(tensor))
        return found if found is not None or tensor._base is None else self._origins.get(id(tensor._base))


class BlockLog:
    """The operands of chosen products in every N-th step; MoeLog.log_blocks() describes the arguments."""

    def __init__(self, model, modules, every, formats, what_if, directions, names, most, samples, warn):
        formats = formats if isinstance(formats, dict) else dict.fromkeys(("x", "W", "dY"), formats)
        names = dict(names or {})
        directions, what_if = ((one,) if isinstance(one, str) else tuple(one or ()) for one in (directions, what_if))
        unknown = set(formats) - {"x", "W", "dY"} or set(directions) - {"forward", "dgrad", "wgrad"}
        if unknown or not formats or not directions:
            raise ValueError("%s: allowed are x, W and dY for formats; forward, dgrad and wgrad for directions"
                             % (", ".join(map(str, unknown)) or "none given"))
        for name, value, smallest in (("every", every, 1), ("most", most, 1), ("samples", samples, 0)):
            if not isinstance(value, numbers.Integral) or value < smallest:
                raise ValueError("%s=%r: expected a whole number from %d on" % (name, value, smallest))
        compared = [format_named(name) for name in what_if]
        self._forms = {operand: [format_named(name)] + compared for operand, name in formats.items()}
        self._every, self._directions, self._most, self._samples = every, directions, most, samples
        self._warn = warn
        try:
            rules = [(re.compile(rule), weight) for rule, weight in tuple(names.items()) + _NAMES]
            chosen = re.compile(modules)
        except (re.error, TypeError) as error:
            raise ValueError("log_blocks: %r: not all are regular expressions: %s" % ([modules, *names], error)) from error
        wrong = set(names.values()) - _WEIGHTS
        if wrong:
            raise ValueError("names: %s: allowed are %s" % (", ".join(map(repr, wrong)), ", ".join(sorted(_WEIGHTS))))
        self._linears, self._grouped, self._counts = [], [], {}
        self._find(model, chosen, rules)
        self._model = model
        self._handles, self._operands, self._taken, self._modes, self._stance = [], {}, set(), {}, None
        self._complete, self._waiting = [], 0  # operands that wait for others of their shape, their elements

    def _find(self, model, chosen, rules):
        unnamed, matched = [], False
        for name, module in model.named_modules():
            if not chosen.search(name):
                continue
            weights = {key: weight for key, weight in module.named_parameters(recurse=False) if weight.dim() == 3}
            splits = [key for key, _ in module.named_parameters(recurse=False) if re.match(r"weight\d+$", key)]
            weight = getattr(module, "weight", None)
            if isinstance(weight, torch.Tensor) and weight.dim() == 2 and not isinstance(module, torch.nn.Embedding):
                splits = splits or ["weight"]
            keys = ["%s.%s" % (name, key) for key in weights] if weights else [name] if splits else []
            for key in keys:
                place = _place_of(key, rules)
                matched = True
                if place is None:
                    unnamed.append(key)
                elif weights:
                    self._grouped.append((module, key.rpartition(".")[2], place))
                else:
                    self._linears.append((module, splits, place))
                    self._counts[place] = self._counts.get(place, 0) + 1
        if not matched:
            raise ValueError("log_blocks: no module with a weight matches %r" % chosen.pattern)
        if unnamed:
            self._warn("blocks", "log_blocks does not know these weights; give names={\"REGEX\": \"attention wq\"}: "
                       + ", ".join(unnamed)[:500])

    def begin(self, step):
        """Prepares for the step, which has not begun."""
        self._end()
        if step % self._every:
            return
        for module, weights, place in self._linears:
            self._handles.append(module.register_forward_hook(functools.partial(self._after_linear, weights, place)))
        for module in {id(module): module for module, _, _ in self._grouped}.values():
            self._handles.append(module.register_forward_pre_hook(self._before_grouped))
            self._handles.append(module.register_forward_hook(self._after_grouped))
        if _is_compiled(self._model) and hasattr(torch.compiler, "set_stance"):
            self._stance = torch.compiler.set_stance("force_eager")  # hooks and modes do not reach compiled graphs

    def _end(self):
        for handle in self._handles:
            handle.remove()
        for mode in self._modes.values():  # of a forward pass that failed
            mode.__exit__(None, None, None)
        if self._stance is not None:
            torch.compiler.set_stance("default")
        self._handles, self._operands, self._taken, self._modes, self._stance = [], {}, set(), {}, None
        self._complete, self._waiting = [], 0

    def close(self):
        self._end()

    def _only_warns(self, place, work):
        try:
            with torch.no_grad():
                work()
        except Exception as error:
            self._warn(("blocks", place), "operands of %s are not logged: %s: %s" % (
                " ".join(map(str, place)), type(error).__name__, str(error).split("\n")[0][:300]))

    def _first_pass(self, key):
        """True once in a step for each module: microbatches after the first, and repeated passes, do not count."""
        if not torch.is_grad_enabled() or _is_compiling() or key in self._taken:
            return False
        self._taken.add(key)
        return True

    def _after_linear(self, weights, place, module, args, output):
        out = next((value for value in (output if isinstance(output, (tuple, list)) else [output])
                    if isinstance(value, torch.Tensor)), None)
        if out is None or not args or not isinstance(args[0], torch.Tensor) or not self._first_pass(id(module)):
            return
        pieces = self._counts[place]

        def work():
            factors = [getattr(module, name) for name in weights]
            ends = None
            if len(factors) > 1:  # TransformerEngine's GroupedLinear: the rows of each expert
                rows = torch.as_tensor(args[1], device=args[0].device)
                ends = rows.cumsum(0)
            weight = factors[0] if len(factors) == 1 else torch.stack([_plain_tensor(factor) for factor in factors])
            if args[0].shape[-1] != weight.shape[-1]:
                raise ValueError("an input of width %d, a weight for %d" % (args[0].shape[-1], weight.shape[-1]))
            # A module that normalizes its input before the product (TransformerEngine's LayerNormLinear) hides its x.
            x = None if hasattr(module, "layer_norm_weight") else args[0]
            self._take(place, x, weight, out, ends, pieces)

        self._only_warns(place, work)

    def _before_grouped(self, module, _):
        if not self._first_pass(id(module)):
            return
        own = {key: place for other, key, place in self._grouped if other is module}
        weights = [(key, getattr(module, key)) for key in own]
        loops = dict(weights)

        def take(key, x, weight, out, ends):
            pieces = 1 if weight.dim() == 3 else loops[key].shape[0]
            self._only_warns(own[key], lambda: self._take(own[key], x, weight, out, ends, pieces))

        self._modes[id(module)] = _Products(weights, take)
        self._modes[id(module)].__enter__()

    def _after_grouped(self, module, _, __):
        mode = None if _is_compiling() else self._modes.pop(id(module), None)
        if mode is not None:
            mode.__exit__(None, None, None)

    def _take(self, place, x, weight, out, ends, pieces):
        alone = weight.dim() == 2
        dtype = _operand_dtype(out if x is None else x)
        group = inside = None
        if out.dim() == 2 and ends is not None:
            rows = torch.arange(out.shape[0], device=out.device, dtype=ends.dtype)
            experts = torch.searchsorted(ends, rows, right=True)
            inside = (experts < ends.numel())[:, None]  # rows behind the last expert have no meaning
            group = experts, ends.numel() + 1
        if x is not None:
            x = x.detach() if inside is None else torch.where(inside, x.detach(), torch.zeros_like(x))
            x = (x if x.dim() == 3 and not alone else x.reshape(-1, x.shape[-1])).to(dtype)
            if "forward" in self._directions:
                self._add(place, "x", "forward", pieces, x, group)
            if "wgrad" in self._directions and alone and pieces == 1:
                self._add(place, "x", "wgrad", pieces, x.t())
        self._add_weight(place, weight, dtype, pieces)
        if out.requires_grad and {"dgrad", "wgrad"} & set(self._directions):
            out.register_hook(lambda gradient: self._only_warns(place, lambda: self._take_gradient(
                place, gradient, group, inside, alone, pieces)))

    def _add_weight(self, place, weight, dtype, pieces):
        if "W" not in self._forms:
            return
        quantized = stored(weight)
        if quantized is not None:
            self._operand(place, "W", "forward", 1).add_stored(quantized)
            return
        weight = _plain_tensor(weight.detach()).to(dtype)
        if "forward" in self._directions:
            self._add(place, "W", "forward", pieces, weight)
        if "dgrad" in self._directions:
            self._add(place, "W", "dgrad", pieces, weight.transpose(-2, -1))

    def _take_gradient(self, place, gradient, group, inside, alone, pieces):
        gradient = gradient.detach()
        if alone or gradient.dim() != 3:
            gradient = gradient.reshape(-1, gradient.shape[-1])
        if inside is not None:
            gradient = torch.where(inside, gradient, torch.zeros_like(gradient))
        if "dgrad" in self._directions:
            self._add(place, "dY", "dgrad", pieces, gradient, group)
        if "wgrad" in self._directions and alone and pieces == 1:
            self._add(place, "dY", "wgrad", pieces, gradient.t())

    def _operand(self, place, operand, direction, pieces):
        key = place + (operand, direction)
        if key not in self._operands:
            self._operands[key] = Operand(self._forms[operand], pieces, self._most, self._samples)
        return self._operands[key]

    def _add(self, place, operand, direction, pieces, values, group=None):
        if operand not in self._forms:
            return
        added = self._operand(place, operand, direction, pieces)
        added.add(values, group)
        if added.is_complete():
            self._complete.append(added)
            self._waiting += added.waiting()
        if self._waiting > _MOST_WAITING:
            self._quantize(self._complete)

    def _quantize(self, operands):
        quantize_together(operands)
        self._complete, self._waiting = [], 0

    def take(self):
        """Returns the rows of the step for `quants` of the log, and its markers with samples. Ends the step."""
        rows, markers = [], []
        self._quantize(self._operands.values())
        found = [(key, operand) for key, operand in self._operands.items() if operand.sums is not None]
        values = _lists([operand.sums.values for _, operand in found])
        errors = iter(_lists([operand.errors for _, operand in found if operand.errors is not None]))
        for (key, operand), operand_sums in zip(found, values):
            place = dict(zip(("layer", "gemm_class", "weight", "operand", "direction"), key))
            figures = operand.sums.figures(operand_sums)
            rows.append({**place, "format": operand.name, **{name: _short(value) for name, value in figures.items()}})
            squares = next(errors) if operand.errors is not None else []
            other = {form.name: _short(10 * math.log10(x2 / error2))
                     for form, (x2, error2) in zip(operand.forms[1:], squares) if x2 > 0 and error2 > 0}
            if operand.sampled:
                kind, text = _encoded(torch.cat(operand.sampled))
                sample = {"format": operand.name, "stored": operand.stored, "what_if": other,
                          "cols": operand.sampled[0].shape[1], "dtype": kind, "values": text}
                markers.append({"kind": "operands", "key": _place_text(*key), "text": json.dumps(sample)})
        self._end()
        return rows, markers


def _is_compiled(model):
    """True if the model, a part of it or a wrapper around it was compiled, also since the log began."""
    return any(hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
               for module in model.modules()) or "torch._dynamo" in sys.modules and any(
        isinstance(owner, dict) and owner.get("_orig_mod") is model for owner in gc.get_referrers(model))


# A compiler that meets the hooks, as in a first step before which begin() saw no compiled model, leaves nothing of them.
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def _plain_tensor(weight):
    """Returns this rank's part of a distributed tensor, and other tensors unchanged."""
    return weight.to_local() if hasattr(weight, "to_local") else weight


def _place_of(name, rules):
    """Returns (layer, class, weight); layer -1: not of a layer. None: the name is not known."""
    weight = next((weight for rule, weight in rules if rule.search(name)), None)
    if weight is None:
        return None
    number = re.search(r"(?:^|\.)(\d+)(?:\.|$)", name)
    layer = int(number.group(1)) if number and not weight.startswith("head") else -1
    return (layer,) + tuple(weight.split())


def _short(value):
    """Rounds a number to the digits that give a float32 back."""
    return float("%.9g" % value) if isinstance(value, float) else value


def _place_text(layer, gemm_class, weight, operand, direction):
    """As place_text() of core/numerics/gemm_operand.h."""
    return "%s%s %s, %s %s" % ("" if layer < 0 else "layer %d, " % layer, gemm_class, weight, operand, direction)


def _lists(tensors):
    """Returns the tensors as lists, with one copy from each device."""
    lists = [None] * len(tensors)
    for device in {tensor.device for tensor in tensors}:
        places = [place for place, tensor in enumerate(tensors) if tensor.device == device]
        for place, values in zip(places, torch.stack([tensors[place] for place in places]).tolist()):
            lists[place] = values
    return lists
