#include "core/logs/log_probs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "core/files/input_file.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/text/json_line.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

constexpr std::uint64_t kLargestText = std::uint64_t{4} << 30;
constexpr std::size_t kMaxValues = std::size_t{1} << 30;
constexpr float kLargestByRounding = 1e-3f;  // largest value above 0 that rounding explains
constexpr int kDeepestValue = 16;

using Sequences = std::vector<LogProbSequence> LogProbs::*;

// In a file with rollout_log_probs, `log_probs` is the trainer's; in a file with prox_logp, `logprobs` is the engine's
// (settle_names()).
constexpr std::pair<std::string_view, Sequences> kNames[] = {{"rollout_log_probs", &LogProbs::engine},
                                                             {"rollout_logprobs", &LogProbs::engine},
                                                             {"output_token_logprobs", &LogProbs::engine},
                                                             {"old_log_probs", &LogProbs::trainer},
                                                             {"prox_logp", &LogProbs::trainer},
                                                             {"train_log_probs", &LogProbs::trainer},
                                                             {"log_probs", &LogProbs::unnamed},
                                                             {"logprobs", &LogProbs::unnamed},
                                                             {"token_logprobs", &LogProbs::unnamed}};
constexpr std::string_view kMasks[] = {"response_mask", "loss_mask"};

Sequences named(std::string_view name) {
  for (const auto& [known, side] : kNames)
    if (known == name) return side;
  return nullptr;
}

// If the file names exactly one side, the unnamed sequences are those of the other side.
void settle_names(LogProbs& found) {
  if (found.unnamed.empty() || found.engine.empty() == found.trainer.empty()) return;
  (found.engine.empty() ? found.engine : found.trainer) = std::move(found.unnamed);
  found.unnamed.clear();
}

void check_values(const LogProbs& found) {
  for (const Sequences side : {&LogProbs::engine, &LogProbs::trainer, &LogProbs::unnamed})
    for (const LogProbSequence& sequence : found.*side) {
      if (!sequence.mask.empty() && sequence.mask.size() != sequence.values.size())
        throw Unreadable(
            fmt::format("{} log-probabilities beside a mask of {}", sequence.values.size(), sequence.mask.size()));
      for (std::size_t t = 0; t < sequence.values.size(); ++t)
        if ((sequence.mask.empty() || sequence.mask[t]) && sequence.values[t] > kLargestByRounding)
          throw Unreadable(fmt::format("a log-probability of {}; log-probabilities are at most 0", sequence.values[t]));
    }
}

// Reads a number, [number, ...] as SGLang writes it, or {"logprob": number} as vLLM does. The first token may be null.
float value_of(JsonValue value) {
  if (value.is_array()) {
    const JsonList list = list_of(value, "log-probability", 0, "");
    if (list.size() == 0) throw Unreadable("an empty list in place of a log-probability");
    return to_float(*list.begin(), "log-probability");
  }
  if (!value.is_object()) return to_float(value, "log-probability");
  const JsonFields fields = fields_of(value, "log-probability");
  const JsonValue* number = member(fields, {"logprob"});
  if (!number) throw Unreadable("an object without logprob in place of a log-probability");
  return to_float(*number, "logprob");
}

// True if the elements of the list are lists, each a sequence. SGLang's inner lists are single tokens instead:
// [log-probability, id, text].
bool holds_sequences(JsonValue list, std::string_view name) {
  if (name == "output_token_logprobs") return false;
  for (const JsonValue item : list_of(list, "log-probabilities", 0, "")) return item.is_array();
  return false;
}

LogProbSequence sequence_of(JsonValue list) {
  LogProbSequence sequence;
  for (const JsonValue item : list_of(list, "log-probabilities", 0, "")) sequence.values.push_back(value_of(item));
  return sequence;
}

std::vector<std::uint8_t> mask_of(JsonValue list) {
  std::vector<std::uint8_t> mask;
  for (const JsonValue item : list_of(list, "mask", 0, ""))
    mask.push_back(item.is_bool() ? bool(item) : to_float(item, "mask") != 0);
  return mask;
}

class JsonReader {
 public:
  explicit JsonReader(LogProbs& found) : found_(found) {}
  void take(const JsonFields& fields, int depth) {
    const JsonValue* mask = member(fields, {"response_mask", "loss_mask"});
    for (const auto& field : fields) {
      const Sequences side = named(field.key);
      if (side && field.value.is_array())
        take_list(field.key, field.value, found_.*side, mask);
      else if (field.key == "content" && field.value.is_array() && depth > 0)
        take_content(field.value);
      else
        take(field.value, depth + 1);
    }
  }

 private:
  void take(JsonValue value, int depth) {
    if (depth > kDeepestValue) return;
    if (value.is_object()) return take(fields_of(value, "response"), depth);
    if (!value.is_array()) return;
    for (const JsonValue item : list_of(value, "response", 0, ""))
      if (item.is_object() || item.is_array()) take(item, depth + 1);
  }
  void take_list(std::string_view name, JsonValue list, std::vector<LogProbSequence>& to, const JsonValue* mask) {
    const bool are_several = holds_sequences(list, name);
    const auto sequences_of = [&](JsonValue array) {
      if (!are_several) return std::vector{array};
      const JsonList all = list_of(array, "log-probabilities", 0, "");
      return std::vector<JsonValue>(all.begin(), all.end());
    };
    const std::vector<JsonValue> masks = mask && mask->is_array() ? sequences_of(*mask) : std::vector<JsonValue>();
    std::size_t i = 0;
    for (const JsonValue sequence : sequences_of(list)) {
      to.push_back(sequence_of(sequence));
      if (!masks.empty() && i >= masks.size()) throw Unreadable("fewer masks than sequences");
      if (!masks.empty()) to.back().mask = mask_of(masks[i++]);
    }
  }
  // Reads vLLM's chat: "logprobs": {"content": [{"token", "logprob"}, ...]}. Leaves out the content of a message, which
  // is a text or has no logprob.
  void take_content(JsonValue list) {
    for (const JsonValue item : list_of(list, "content", 0, ""))
      if (item["logprob"].error() != simdjson::SUCCESS) return;
    found_.unnamed.push_back(sequence_of(list));
  }

  LogProbs& found_;
};

// Returns the last part of a name: "rollout_log_probs" of "batch.rollout_log_probs".
std::string_view last_part(std::string_view name) {
  const std::size_t dot = name.find_last_of("./");
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// Throws Unreadable for a tensor that takes far more memory than its file: views may repeat a few stored values.
std::vector<float> stored_floats(const TensorView& tensor) {
  constexpr std::size_t kMaxRepeated = std::size_t{1} << 26;
  if (tensor.elements() > kMaxValues) throw Unreadable(tensor.name + ": more than a billion values");
  if (tensor.elements() > kMaxRepeated && tensor.elements() / 2 > tensor.bytes.size())
    throw Unreadable(fmt::format("{}: repeats its stored values in {} places", tensor.name, tensor.elements()));
  return tensor.floats();
}

std::vector<LogProbSequence> rows_of(const TensorView& tensor) {
  if (tensor.shape.empty() || tensor.shape.size() > 2)
    throw Unreadable(
        fmt::format("{}: {} dimensions, expected [tokens] or [sequences, tokens]", tensor.name, tensor.shape.size()));
  const std::vector<float> values = stored_floats(tensor);
  const std::size_t length = tensor.shape.back();
  std::vector<LogProbSequence> rows;
  for (std::size_t first = 0; length > 0 && first < values.size(); first += length)
    rows.push_back({{values.begin() + first, values.begin() + first + length}, {}});
  return rows;
}

void set_masks(const TensorView& mask, LogProbs& found) {
  const std::vector<float> values = stored_floats(mask);
  for (const Sequences side : {&LogProbs::engine, &LogProbs::trainer, &LogProbs::unnamed}) {
    std::size_t at = 0;
    for (LogProbSequence& sequence : found.*side) {
      if (values.size() - at < sequence.values.size())
        throw Unreadable(mask.name + ": fewer values than log-probabilities");
      for (std::size_t t = 0; t < sequence.values.size(); ++t) sequence.mask.push_back(values[at++] != 0);
    }
  }
}

LogProbs log_probs_in_tensors(const std::string& path) {
  const TensorFile file = open_tensors(path);
  LogProbs found;
  const TensorView* mask = nullptr;
  for (const TensorView& tensor : file.tensors()) {
    const std::string_view name = last_part(tensor.name);
    if (std::ranges::find(kMasks, name) != std::end(kMasks) && !mask) mask = &tensor;
    Sequences side = named(name);
    if (!side && file.tensors().size() == 1 && is_floating(tensor.dtype)) side = &LogProbs::unnamed;
    if (side) std::ranges::move(rows_of(tensor), std::back_inserter(found.*side));
  }
  if (mask) set_masks(*mask, found);
  return found;
}

std::vector<float> counted(const LogProbSequence& sequence, const std::vector<std::uint8_t>& mask) {
  std::vector<float> values;
  for (std::size_t t = 0; t < sequence.values.size(); ++t)
    if (mask.empty() || mask[t]) values.push_back(sequence.values[t]);
  return values;
}

std::vector<std::uint8_t> both(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  std::vector<std::uint8_t> mask(a.size());
  for (std::size_t t = 0; t < a.size(); ++t) mask[t] = a[t] && b[t];
  return mask;
}

const std::vector<LogProbSequence>& side_of(const LogProbs& found, Sequences side, const char* owner) {
  const std::vector<LogProbSequence>& named = found.*side;
  if (named.empty() && found.unnamed.empty()) throw std::runtime_error(std::string("no log-probabilities of ") + owner);
  return named.empty() ? found.unnamed : named;
}

}  // namespace

LogProbs log_probs_in(std::string_view json) {
  LogProbs found;
  JsonReader reader(found);
  read_objects(
      json, [&](const JsonFields& response) { reader.take(response, 0); },
      [](std::int64_t line, const std::string& reason) {
        throw Unreadable((line > 1 ? fmt::format("line {}: ", line) : std::string()) + reason);
      });
  settle_names(found);
  check_values(found);
  return found;
}

LogProbs read_log_probs(const std::string& path) {
  try {
    LogProbs found;
    if (begins_like_json(beginning_of(path, 64))) {
      found = log_probs_in(read_file(path, kLargestText, "file of log-probabilities"));
    } else {
      found = log_probs_in_tensors(path);
      settle_names(found);
      check_values(found);
    }
    if (found.engine.empty() && found.trainer.empty() && found.unnamed.empty())
      throw Unreadable(
          "holds no log-probabilities: none of rollout_log_probs, old_log_probs, log_probs, prox_logp, logprobs, "
          "token_logprobs, output_token_logprobs");
    return found;
  } catch (const Unreadable& problem) {
    refuse(path, problem.what());
  }
}

LogRatios compare_log_probs(const LogProbs& trainer, const LogProbs& engine) {
  const std::vector<LogProbSequence>& sequences_p = side_of(trainer, &LogProbs::trainer, "a trainer");
  const std::vector<LogProbSequence>& sequences_q = side_of(engine, &LogProbs::engine, "an engine");
  if (sequences_p.size() != sequences_q.size())
    throw std::runtime_error(
        fmt::format("the trainer has {} sequences, the engine has {}", sequences_p.size(), sequences_q.size()));
  LogRatios ratios;
  for (std::size_t s = 0; s < sequences_p.size(); ++s) {
    const bool aligned = sequences_p[s].values.size() == sequences_q[s].values.size();
    const std::vector<std::uint8_t> mask =
        aligned ? both(sequences_p[s].mask, sequences_q[s].mask) : std::vector<std::uint8_t>{};
    const std::vector<float> p = counted(sequences_p[s], aligned ? mask : sequences_p[s].mask);
    const std::vector<float> q = counted(sequences_q[s], aligned ? mask : sequences_q[s].mask);
    if (p.size() != q.size())
      throw std::runtime_error(
          fmt::format("sequence {} has {} tokens of the trainer and {} of the engine", s, p.size(), q.size()));
    for (std::size_t t = 0; t < p.size(); ++t)
      if (std::isfinite(p[t]) && std::isfinite(q[t])) ratios.add(p[t] - static_cast<double>(q[t]));
  }
  if (ratios.tokens() == 0) throw std::runtime_error("no token has a finite log-probability on both sides");
  return ratios;
}

}  // namespace moescope
