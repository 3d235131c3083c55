// Reads dumps of expert statistics (docs/logs.md), which are no training logs: one total or a few of the tokens of each
// expert. Files of Megatron-LM, llama.cpp and transformers have readers of their own (dump_readers.h). In all
// others, names say which arrays count experts (count_names.cpp, count_arrays.cpp):
//   SGLang          logical_count [passes, layers, experts]; records.N.global_physical_count and
//                   last_physical_to_logical_map
//   vLLM            expert_load [.., layers, copies of experts] and physical_to_logical_map
//   TensorRT-LLM    ITERATION_LAYER in rankR.safetensors
// Sources: SGLang, srt/eplb/expert_distribution.py; vLLM, distributed/eplb; TensorRT-LLM, expert_statistic.py;
// Megatron-LM, training/activation_logging.py; llama.cpp, tools/imatrix.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/config/run_settings.h"
#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/torch_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/dumps/dump_readers.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/log_readers.h"
#include "core/logs/runs/log_record.h"
#include "core/logs/table/table_form.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestJson = std::uint64_t{64} << 20;
constexpr std::size_t kMaxArrays = 1'000'000;
constexpr const char* kMetaInfo = "meta_info.json";

bool may_be_tensors(const std::string& path, std::string_view bytes) {
  return path.ends_with(".safetensors") || begins_like_npy(bytes) || begins_like_zip(bytes) ||
         begins_like_pickle(bytes);
}

bool may_hold_counts(const TensorView& tensor) {
  constexpr std::size_t kLookedAt = 4096;
  if (!tensor.floating()) return tensor.dtype != DType::boolean;
  if (tensor.scales || tensor.dtype == DType::f4) return false;
  const std::vector<float> values = tensor.floats(0, std::min(kLookedAt, tensor.elements()));
  const bool are_shares = std::ranges::all_of(values, [](float value) { return value >= 0 && value <= 1; });
  return are_shares ||  // which are refused with the reason
         std::ranges::all_of(values, [](float value) { return value >= 0 && value == std::floor(value); });
}

std::vector<CountArray> arrays_of(const TensorFile& file) {
  std::vector<CountArray> arrays;
  for (const TensorView& tensor : file.tensors())
    arrays.push_back({tensor.name, tensor.shape, [&tensor] { return tensor.doubles(); }});
  return arrays;
}

// True if tensors count experts and none is a weight: a checkpoint may have counts among its buffers.
bool are_counts(const TensorFile& file) {
  bool found = false;
  for (const TensorView& tensor : file.tensors()) {
    const bool is_bias = tensor.name.ends_with("bias") && !tensor.name.ends_with("expert_bias");  // which is no weight
    if (tensor.name.ends_with("weight") || is_bias) return false;
    const CountArray array{tensor.name, tensor.shape, {}};
    found = found || (is_count_array(array, file.path()) && tensor.elements() > 0 && may_hold_counts(tensor));
  }
  return found;
}

bool are_logits(const TensorFile& file) {
  return std::ranges::any_of(file.tensors(), [&](const TensorView& tensor) { return is_router_logits(tensor, file); });
}

// The arrays of a JSON text, and the numbers that it states.
struct CountJson {
  std::vector<CountArray> arrays;
  RoutedShape stated;
};

// Returns the sizes of nested lists that begin with a number; empty for other values.
std::vector<std::size_t> shape_of_lists(const nlohmann::json& value) {
  std::vector<std::size_t> shape;
  const nlohmann::json* inner = &value;
  for (; inner->is_array() && !inner->empty(); inner = &inner->front()) shape.push_back(inner->size());
  return inner->is_number() ? shape : std::vector<std::size_t>();
}

// Appends the numbers of nested lists. Returns false if they have other sizes, or hold other values.
bool append_numbers(const nlohmann::json& value, std::span<const std::size_t> shape, std::vector<double>& values) {
  if (shape.empty()) {
    if (value.is_number()) values.push_back(value.get<double>());
    return value.is_number();
  }
  return value.is_array() && value.size() == shape.front() &&
         std::ranges::all_of(
             value, [&](const nlohmann::json& item) { return append_numbers(item, shape.subspan(1), values); });
}

// Returns what the number of a member means: "layer", "expert", "step" or "rank"; "" if it is no place.
std::string_view place_named(std::string_view key) {
  const auto match = TagMap::built_in().find(key);
  if (match && match->rule->means == TagMeaning::layer_number) return "layer";
  if (match && match->rule->means == TagMeaning::expert_number) return "expert";
  if (match && match->rule->means == TagMeaning::step_number) return "step";
  return is_part_of_step(key) ? "rank" : "";
}

bool is_place(const std::string& key, const nlohmann::json& member) {
  return !place_named(key).empty() && member.is_number_unsigned();
}

// Returns the place of an object that names it in its members: "step.5.layer.3" for {"step": 5, "layer": 3, ...}; "" if
// it does not.
std::string named_place(const nlohmann::json& object) {
  std::string place;
  if (!object.is_object()) return place;
  for (const auto& [key, member] : object.items())
    if (is_place(key, member))
      place += fmt::format("{}{}.{}", place.empty() ? "" : ".", place_named(key), member.get<std::uint64_t>());
  return place;
}

void collect_json(const nlohmann::json& value, const std::string& name, CountJson& found) {
  if (found.arrays.size() > kMaxArrays) throw std::runtime_error("has more than a million numbers by name");
  if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      if (!is_place(key, member)) collect_json(member, name.empty() ? key : name + '.' + key, found);
    return;
  }
  if (const std::vector<std::size_t> shape = shape_of_lists(value); !shape.empty()) {
    std::vector<double> values;
    if (!append_numbers(value, shape, values))
      throw std::runtime_error("'" + printable(name) +
                               "' has lists of different lengths, or other values than numbers");
    found.arrays.push_back({name, shape, [values = std::move(values)] { return values; }});
    return;
  }
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string place = named_place(value[i]);
      const std::string list_name = place.empty() ? name : std::string();  // "layers" of "layers.0" names no layer then
      collect_json(value[i], (list_name.empty() ? "" : list_name + '.') + (place.empty() ? std::to_string(i) : place),
                   found);
    }
    return;
  }
  if (!value.is_number()) return;
  const std::string key = name.substr(name.rfind('.') + 1);
  const auto setting = std::ranges::find(log_names(), key, &LogName::name);
  const std::string stated = setting == log_names().end() ? std::string() : setting->setting;
  if (stated == "experts" || stated == "top_k") {
    const double number = value.get<double>();
    if (!(number >= 1 && number <= kMaxImportedExperts))
      throw std::runtime_error("'" + printable(name) + "' is out of range");
    (stated == "experts" ? found.stated.experts : found.stated.top_k) = static_cast<int>(number);
    return;
  }
  found.arrays.push_back({name, {}, [number = value.get<double>()] { return std::vector<double>{number}; }});
}

// Returns nullopt if the file is no JSON, or has no counts.
std::optional<CountJson> counts_of_json(const std::string& path) {
  CountJson found;
  collect_json(parse_json(read_file(path, kLargestJson, "dump of counts"), path), "", found);
  const bool any =
      std::ranges::any_of(found.arrays, [&](const CountArray& array) { return is_count_array(array, path); });
  return any ? std::optional(std::move(found)) : std::nullopt;
}

std::vector<std::string_view> cells_of(std::string_view line) {
  const std::string_view between = line.find_first_of(",;\t") == line.npos ? " \r" : ",;\t\r";
  std::vector<std::string_view> cells;
  for (std::size_t at = line.find_first_not_of(between); at != line.npos; at = line.find_first_not_of(between, at)) {
    const std::string_view cell = line.substr(at, line.find_first_of(between, at) - at);
    cells.push_back(trimmed(cell, " \""));
    at += cell.size();
  }
  return cells;
}

struct Columns {
  std::size_t begin = 0, end = 0;
};

// Returns the columns that are experts in their order: expert_0, expert_1, ..., or from 1 on; none if there is only
// one.
Columns expert_columns(std::span<const std::string_view> names) {
  const auto expert_of = [&](std::size_t column) { return count_name(names[column]).expert; };
  Columns found;
  while (found.begin < names.size() && expert_of(found.begin) != 0 && expert_of(found.begin) != 1) ++found.begin;
  for (found.end = found.begin; found.end < names.size(); ++found.end)
    if (expert_of(found.end) != expert_of(found.begin) + to_int(found.end - found.begin)) break;
  return found.end - found.begin > 1 ? found : Columns();
}

// True for a column of what the counts of its row give: "total", "max", "mean".
bool is_of_row(std::string_view name) {
  constexpr std::string_view kWords = " total sum max min mean avg average std stddev std_dev var cv entropy ";
  return kWords.find(' ' + spelled_alike(name) + ' ') != kWords.npos;
}

// Reads a table whose columns are experts: rows of whole numbers, as numpy.savetxt writes them, if the name of the file
// says that it counts experts; or with a header of experts, beside which there may be a column of layers, and columns
// and a last row of sums. Two and four columns without a header are tables of layers and experts (table_form.h). Empty:
// it is another table.
std::vector<CountArray> counts_of_table(const std::string& path, std::string_view beginning,
                                        const std::string& turned = {}) {
  beginning = without_byte_order_mark(beginning);
  const std::vector<std::string_view> first = cells_of(beginning.substr(0, beginning.find('\n')));
  if (first.size() < 2) return {};
  const bool has_header = !printed_number(first[0]);
  const CountArray unnamed{fs::path(path).stem().string(), {1, first.size()}, {}};
  const bool is_matrix = first.size() != 2 && first.size() != 4 && is_count_array(unnamed, path);
  Columns experts{0, is_matrix ? first.size() : 0};
  if (has_header) experts = expert_columns(first);
  if (experts.end == 0) {
    const std::string by_column = has_header && turned.empty() ? turned_table(path) : std::string();
    return by_column.empty() ? std::vector<CountArray>() : counts_of_table(path, by_column, by_column);
  }
  std::size_t layer_column = first.size();
  std::map<std::size_t, std::vector<double>> row_values;  // columns of what the counts of a row give
  for (std::size_t column = 0; column < first.size(); ++column) {
    if (column >= experts.begin && column < experts.end) continue;
    if (layer_column == first.size() && place_named(first[column]) == "layer")
      layer_column = column;
    else if (is_of_row(first[column]))
      row_values[column];
    else
      return {};
  }
  const bool has_layers = layer_column < first.size();
  const std::string text = turned.empty() ? read_file(path, kLargestJson, "table of counts") : turned;
  std::string_view unread = text;
  if (has_header) take_until(unread, '\n');
  std::vector<CountArray> rows;
  std::vector<double> all, sums(experts.end - experts.begin);
  while (!unread.empty()) {
    const std::vector<std::string_view> cells = cells_of(take_until(unread, '\n'));
    if (cells.empty()) continue;
    std::vector<double> row;
    if (cells.size() != first.size()) return {};
    for (const std::string_view cell : std::span(cells).subspan(experts.begin, sums.size()))
      if (const auto number = printed_number(cell)) row.push_back(*number);
    if (row.size() != sums.size()) return {};
    if (has_layers && is_of_row(cells[layer_column]) && row == sums) continue;
    for (auto& [column, values] : row_values) values.push_back(printed_number(cells[column]).value_or(std::nan("")));
    std::ranges::transform(row, sums, sums.begin(), std::plus());
    all.insert(all.end(), row.begin(), row.end());
    const std::int64_t layer = has_layers ? number_in_name(cells[layer_column], kLastImportedLayer, "layer") : 0;
    rows.push_back({fmt::format("layer.{}.expert_counts", layer), {row.size()}, [row] { return row; }});
  }
  if (!has_layers)
    rows = {{has_header ? "expert_counts" : unnamed.name, {rows.size(), sums.size()}, [all] { return all; }}};
  for (const auto& [column, values] : row_values)
    rows.push_back({std::string(first[column]), {}, [values] { return values; }});
  return rows;
}

bool is_rank_file(std::string_view name) {
  return name.ends_with(".safetensors") && number_in_file_name(name, "rank") >= 0;
}

bool is_statistics_folder(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kMetaInfo, error) && !files_in(folder, is_rank_file).empty();
}

// The settings of TensorRT-LLM beside its files.
RoutedShape settings_beside(const fs::path& folder) {
  const fs::path path = folder / kMetaInfo;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  CountJson found;
  collect_json(parse_json(read_file(path.string(), kLargestJson, kMetaInfo), path.string()), "", found);
  return found.stated;
}

bool are_equal(const TensorFile& a, const TensorFile& b) {
  if (a.tensors().size() != b.tensors().size()) return false;
  return std::ranges::all_of(a.tensors(), [&](const TensorView& tensor) {
    const TensorView* other = b.find(tensor.name);
    return other && other->shape == tensor.shape && other->integers() == tensor.integers();
  });
}

// Ranks of attention data parallelism count their own tokens. Ranks of tensor parallelism count the same tokens, and
// have equal files, of which one is read.
Imported import_statistics_folder(const std::string& path, const ImportOptions& options) {
  std::vector<TensorFile> ranks;
  for (const fs::path& file : files_in(path, is_rank_file)) ranks.push_back(open_tensors(file.string()));
  const bool copies = ranks.size() > 1 && std::ranges::all_of(ranks, [&](const TensorFile& rank) {
                        return are_equal(ranks.front(), rank);
                      });
  std::vector<CountArray> arrays;
  for (const TensorFile& rank : ranks) {
    for (CountArray& array : arrays_of(rank)) arrays.push_back(std::move(array));
    if (copies) break;
  }
  Imported imported = runs_of_counts(path, arrays, settings_beside(path), options);
  imported.remarks.push_back(copies ? "all ranks counted the same tokens: one rank is read"
                                    : fmt::format("counts of {} ranks are summed", ranks.size()));
  return imported;
}

bool is_table_name(std::string_view path) {
  return is_named_csv(path) || path.ends_with(".txt");
}

Imported import_file_of_counts(const std::string& path, const ImportOptions& options) {
  const std::string bytes = beginning_of(path, 64 << 10);
  if (begins_like_gguf(bytes)) return import_imatrix(path, options);
  if (may_be_tensors(path, bytes)) {
    const TensorFile file = open_tensors(path);
    if (!are_counts(file) && are_logits(file)) return import_router_logits(file, options);
    return runs_of_counts(path, arrays_of(file), settings_beside(fs::path(path).parent_path()), options);
  }
  if (is_rank_counts_line(bytes) || path.ends_with(".jsonl")) return import_rank_counts(path, options);
  if (is_table_name(path)) return runs_of_counts(path, counts_of_table(path, bytes), {}, options);
  const auto counts = counts_of_json(path);
  if (!counts) refuse(path, "has no counts of experts");
  return runs_of_counts(path, counts->arrays, counts->stated, options);
}

}  // namespace

Imported import_expert_counts(const std::string& path, const ImportOptions& options) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const auto import_folder = is_folder && is_statistics_folder(path) ? import_statistics_folder : import_rank_counts;
  Imported imported = (is_folder ? import_folder : import_file_of_counts)(path, options);
  if (options.progress && !options.progress(1)) return {};
  return imported;
}

bool is_expert_counts(const std::string& path, std::string_view bytes) {
  try {
    std::error_code error;
    if (fs::is_directory(path, error)) return is_statistics_folder(path) || holds_rank_counts(path);
    if (begins_like_gguf(bytes)) return is_imatrix(path);
    if (may_be_tensors(path, bytes)) {
      const TensorFile file = open_tensors(path);
      return are_counts(file) || are_logits(file);
    }
    if (is_rank_counts_line(bytes)) return true;
    if (is_table_name(path)) return !counts_of_table(path, bytes).empty();
    return path.ends_with(".json") && begins_like_json(bytes) && counts_of_json(path).has_value();
  } catch (const std::runtime_error&) {  // its own reader says what is wrong
    return false;
  }
}

}  // namespace moescope
