#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "core/config/run_settings.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/frame/describe.h"
#include "core/frame/router_stats.h"
#include "core/logs/lines/json_record.h"

namespace moescope {

namespace {

constexpr int kMaxLayers = kMaxImportedLayers;
constexpr double kMaxRanks = 4096;
// Limit of the memory for the values of a line: kBytesOfAnyLine plus kBytesAByte per byte of the line, at most
// kMaxStepBytes. Rows of quantization take the most, 30 bytes of memory per byte of the line. Counts by byte take 500
// if the line has few bytes, but they are small.
constexpr std::size_t kMaxStepBytes = std::size_t{256} << 20, kBytesOfAnyLine = std::size_t{4} << 20, kBytesAByte = 64;
constexpr std::size_t kMaxRows = 65535;  // rows of one kind in a frame; the recording's id has 16 bits for their index

// Reads a list of objects, if the line has one: each object by read(fields, row).
template <class Row, class Read>
void get_rows(const JsonFields& json, const char* key, std::vector<Row>& rows, LineBudget& budget, Read read) {
  const JsonValue* found = member(json, {key});
  if (!found) return;
  const JsonList list = list_of(*found, key, 0, "");
  if (list.size() > kMaxRows) throw Unreadable(std::string(key) + ": too many entries");
  for (const JsonValue row : list)
    if (!row.is_object()) throw Unreadable(std::string(key) + ": not a list of objects");
  budget.take(list.size() * sizeof(Row));
  rows.reserve(list.size());
  for (const JsonValue row : list) read(fields_of(row, key), rows.emplace_back());
}

int layer_of(const JsonFields& json, int lowest) {
  const JsonValue* found = json.find("layer");
  if (!found) throw Unreadable("no layer");
  return found->is_null() && lowest < 0 ? -1 : to_index(*found, "layer", lowest, kLastImportedLayer);
}

std::string text_of(const JsonFields& json, const char* key) {
  const JsonValue* text = member(json, {key});
  return text ? to_text(*text, key) : std::string();
}

auto named(const std::string& name, const auto& names, const char* key) {
  if (const auto found = names.find(name)) return *found;
  throw Unreadable(std::string(key) + ": \"" + name + "\" is not known");
}

// Parses the name of a field that is the number of a byte. Throws Unreadable "KEY: "NAME" WHY".
std::size_t byte_of(std::string_view name, const char* key, const char* reason) {
  unsigned byte = 0;
  if (!read_number(name, byte) || name.size() > 3 || byte > 255)
    throw Unreadable(std::string(key) + ": \"" + std::string(name) + "\" " + reason);
  return byte;
}

// What an extent counts, as in errors.
const char* size_name(Size size) {
  constexpr const char* kNames[kNumSizes] = {"values", "experts",        "domains", "bytes",  "shares",
                                             "ranks",  "ranks per node", "nodes",   "tokens", "experts"};
  return kNames[static_cast<std::size_t>(size)];
}

// Reads [rows][columns] into one array; n_rows == 0: any number of rows.
template <class Count>
std::vector<Count> matrix(JsonValue list, const char* key, std::size_t n_rows, std::size_t columns) {
  constexpr double limit = std::min(9e15, static_cast<double>(std::numeric_limits<Count>::max()));
  std::vector<Count> out;
  for (const JsonValue row : list_of(list, key, n_rows, "rows"))
    for (const JsonValue value : list_of(row, key, columns, "columns"))
      out.push_back(static_cast<Count>(to_count(value, key, limit)));
  return out;
}

// Returns the number of experts of the first token; 0 if it has no experts.
std::size_t top_k_of(JsonList tokens) {
  const JsonValue first = *tokens.begin();
  if (first.is_null()) return 0;
  if (simdjson::dom::object object; first.get(object) == simdjson::SUCCESS && object.size() == 0) return 0;
  return list_of(first, "experts", 0, "").size();
}

// Reads one row of a frame as a visitor of describe().
class RowFromJson {
 public:
  // `what` is the row in errors. If the number of experts is not in `sizes`, the first array by expert gives it.
  RowFromJson(const JsonFields& json, const char* what, const Sizes& sizes, LineBudget& budget)
      : json_(json), what_(what), sizes_(sizes), budget_(budget) {}

  void layer(int& layer, LayerColumn column) { layer = layer_of(json_, column.lowest); }
  void size(int& value, Size size, Column column) {
    if (size == Size::top_k)
      value = top_k();
    else if (const JsonValue* found = member(json_, {column.key}))
      value = to_index(*found, column.key, 1, static_cast<int>(kMaxRanks));
    else if (size == Size::ranks_per_node)
      value = to_int(sizes_[Size::ranks]);
    else
      throw Unreadable(std::string(what_) + ": no " + column.key);
    sizes_.set(size, value);
  }
  void position(int& position, Column column) {
    if (const JsonValue* found = member(json_, {column.key}))
      position = to_index(*found, column.key, 0, to_int(sizes_[Size::tokens]));
  }
  void flag(bool& flag, Column column) {
    if (const JsonValue* found = member(json_, {column.key}); found && found->is_bool())
      flag = found->get_bool().value_unsafe();
  }
  void figures(auto& row, const auto& table) {
    for (const auto& figure : table)
      if (const JsonValue* found = json_.find(figure.column)) row.*figure.member = to_float(*found, figure.column);
  }
  void count_bytes(Column, const auto&...) {}
  template <class T>
  void array(std::vector<T>& values, Column column, Extent extent) {
    if (const JsonValue* found = member(json_, {column.key}))
      read(*found, values, column.key, extent);
    else if (extent.presence == Presence::required)
      throw Unreadable(std::string(what_) + ": no " + column.key);
    else if (extent.presence == Presence::filled)
      fill(values, sizes_[extent.rows] * sizes_[extent.columns]);
  }
  void bins(std::vector<std::uint32_t>& counts, Column column) {
    const JsonValue* list = member(json_, {column.key});
    if (!list) return;
    JsonList array;
    const bool wide = list->get(array) == simdjson::SUCCESS && array.size() == kWideHalfOctaves;
    counts = to_counts(*list, column.key, wide ? kWideHalfOctaves : kHalfOctaves, "bins");
  }
  void bins(HalfOctaves& bins, Column column) {
    std::vector<std::uint32_t> counts;
    if (const JsonValue* list = member(json_, {column.key}))
      counts = to_counts(*list, column.key, kHalfOctaves, "bins");
    std::copy(counts.begin(), counts.end(), bins.begin());
  }
  void name(auto& value, Column column, const auto& names) {
    value = named(text_of(json_, column.key), names, column.key);
  }
  void text(std::string& text, Column column) { text = text_of(json_, column.key); }
  void bytes(std::string& text, Column column) {
    const auto bytes = unescape_bytes(text_of(json_, column.key));
    if (!bytes) throw Unreadable(std::string(column.key) + ": a backslash that starts no escape");
    text = *bytes;
    sizes_.set(Size::tokens, to_int(text.size()));
  }
  void gemm(Gemm& gemm) {
    GemmClass gemm_class = GemmClass::experts;
    if (const std::string name = text_of(json_, "gemm_class"); !name.empty())
      gemm_class = named(name, gemm_class_name, "gemm_class");
    const std::string weight = text_of(json_, "weight");
    const auto found = find_gemm(gemm_class, weight);
    if (!found) throw Unreadable("weight: \"" + weight + "\" is not known");
    gemm = *found;
  }
  void scales(std::array<std::uint32_t, 256>& e8m0_blocks) {
    const JsonValue* blocks = member(json_, {"e8m0_blocks"});
    if (!blocks) return;
    for (const auto& [name, count] : fields_of(*blocks, "e8m0_blocks")) {
      e8m0_blocks[byte_of(name, "e8m0_blocks", "is not a scale byte")] =
          static_cast<std::uint32_t>(to_count(count, "e8m0_blocks", 4294967295.0));
    }
  }
  void experts(SpecialisationFrame& special) {
    if (sizes_[Size::experts] == 0) throw Unreadable(std::string(what_) + ": the number of experts is not known");
    special.experts = to_int(sizes_[Size::experts]);
  }
  void nested(VolumeFrame& volume, const char* key) {
    if (const JsonValue* found = member(json_, {key})) read_row(fields_of(*found, key), key, sizes_, budget_, volume);
  }
  template <class Row>
  void nested(std::vector<Row>& rows, const char* key) {
    get_rows(json_, key, rows, budget_,
             [&](const JsonFields& fields, Row& row) { read_row(fields, key, sizes_, budget_, row); });
  }

  template <class Row>
  static void read_row(const JsonFields& json, const char* what, const Sizes& sizes, LineBudget& budget, Row& row) {
    RowFromJson visitor(json, what, sizes, budget);
    describe(row, visitor);
  }

 private:
  void read(JsonValue list, std::vector<float>& values, const char* key, Extent extent) {
    if (sizes_[Size::experts] == 0 && extent.rows == Size::experts)
      throw Unreadable(std::string(key) + ": the number of experts is not known");
    const std::size_t size = sizes_[extent.rows] * sizes_[extent.columns];
    const char* const unit = size_name(extent.columns == Size::one ? extent.rows : Size::one);
    values = to_floats(list, key, size, unit);
    if (values.size() != size)  // to_floats() takes a list of any size for size 0
      throw Unreadable(fmt::format("{}: {} {}, not 0", key, values.size(), unit));
  }
  void read(JsonValue list, std::vector<std::uint32_t>& counts, const char* key, Extent extent) {
    if (extent.rows == Size::byte_values)
      read_by_byte(list, counts, key, sizes_[extent.columns]);
    else if (extent.columns != Size::one)
      counts = matrix<std::uint32_t>(list, key, sizes_[extent.rows], sizes_[extent.columns]);
    else if (list_of(list, key, 0, "").size() > 0) {  // empty in a dense layer
      counts = to_counts(list, key, sizes_[extent.rows], size_name(extent.rows));
      sizes_.set(extent.rows, to_int(counts.size()));
    }
  }
  template <class Count>
  void read(JsonValue list, std::vector<Count>& counts, const char* key, Extent extent) {
    counts = matrix<Count>(list, key, sizes_[extent.rows], sizes_[extent.columns]);
    if constexpr (std::is_same_v<Count, std::uint16_t>)
      for (const std::size_t expert : counts)
        if (expert >= sizes_[Size::experts]) throw Unreadable(fmt::format("{}: there is no expert {}", key, expert));
  }
  void read_by_byte(JsonValue bytes, std::vector<std::uint32_t>& counts, const char* key, std::size_t columns) {
    const JsonFields by_name = fields_of(bytes, key);
    if (256 * columns > kMaxImportedLoads) throw Unreadable(std::string(key) + ": too many experts");
    if (by_name.begin() != by_name.end()) fill(counts, 256 * columns);
    for (const auto& [name, list] : by_name) {
      const auto row = to_counts(list, key, columns);
      std::ranges::copy(row, counts.begin() + byte_of(name, key, "is not a byte") * columns);
    }
  }
  template <class T>
  void fill(std::vector<T>& values, std::size_t size) {
    budget_.take(sizeof(T) * size);
    if constexpr (std::is_same_v<T, float>)
      values.assign(size, kNoValue);
    else
      values.assign(size, 0);
  }
  int top_k() const {
    const JsonValue* list = member(json_, {"experts"});
    const std::size_t tokens = sizes_[Size::tokens];
    const std::size_t top_k = list && tokens > 0 ? top_k_of(list_of(*list, "experts", tokens, "tokens")) : 0;
    if (top_k == 0) throw Unreadable(std::string(what_) + ": no experts");
    if (top_k > sizes_[Size::experts]) throw Unreadable("experts: more than there are");
    return to_int(top_k);
  }

  const JsonFields& json_;
  const char* what_;
  Sizes sizes_;
  LineBudget& budget_;
};

void read_phases(const JsonFields& json, TelemetryFrame& frame) {
  const JsonValue* phases = member(json, {"phase_ms"});
  if (!phases) return;
  const JsonFields by_name = fields_of(*phases, "phase_ms");
  for (int p = 0; p < kNumPhases; ++p)
    if (const JsonValue* found = by_name.find(phase_key(static_cast<Phase>(p))))
      frame.phase_ms[p] = to_float(*found, "phase_ms");
}

void read_domains(const JsonFields& json, const RunInfo& info, TelemetryFrame& frame) {
  const JsonValue* table = member(json, {"domain_expert"});
  if (!table || info.domains.empty() || info.n_experts == 0) return;
  const JsonFields by_domain = fields_of(*table, "domain_expert", "not an object of lists");
  SpecialisationFrame special;
  const JsonValue* layer = member(json, {"domain_expert_layer"});
  if (!layer) throw Unreadable("domain_expert without domain_expert_layer");
  special.layer = to_index(*layer, "domain_expert_layer", 0, kLastImportedLayer);
  special.experts = info.n_experts;
  const std::size_t n_experts = info.n_experts;
  for (const std::string& domain : info.domains) {
    const JsonValue* found = by_domain.find(domain);
    const auto counts = found ? to_counts(*found, "domain_expert", n_experts) : std::vector<std::uint32_t>(n_experts);
    special.domain_DE.insert(special.domain_DE.end(), counts.begin(), counts.end());
  }
  frame.specialisation.push_back(std::move(special));
}

}  // namespace

LineBudget::LineBudget(std::size_t line_bytes)
    : free_bytes_(std::min(kMaxStepBytes, kBytesOfAnyLine + kBytesAByte * line_bytes)) {}

void LineBudget::take(std::size_t bytes) {
  if (bytes > free_bytes_) throw Unreadable("claims far more memory than the line is long");
  free_bytes_ -= bytes;
}

RouterFrame router_from_json(const JsonFields& json, const RunInfo& info, LineBudget& budget) {
  RouterFrame router;
  RowFromJson::read_row(json, "router", Sizes(info), budget, router);
  return router;
}

void add_own_values(const JsonFields& json, const RunInfo& info, LineBudget& budget, const RouterNames& names,
                    TelemetryFrame& frame) {
  if (const JsonValue* wall = member(json, {"wall_s"}); wall && wall->is_number())
    frame.wall_s = wall->get_double().value_unsafe();
  if (const JsonValue* tokens = member(json, {"tokens"})) frame.tokens = to_count(*tokens, "tokens", 9e15);
  read_phases(json, frame);
  const Sizes sizes(info);
  for_each_rows(frame, [&]<class Rows>(const char* key, Rows& rows) {
    if constexpr (std::is_same_v<Rows, WireFrame>) {
      if (const JsonValue* wire = member(json, {key}))
        RowFromJson::read_row(fields_of(*wire, key), key, sizes, budget, rows);
    } else {
      get_rows(json, key, rows, budget, [&]<class Row>(const JsonFields& fields, Row& row) {
        if (std::is_same_v<Row, RouterFrame> && names)
          RowFromJson::read_row(names(fields), key, sizes, budget, row);
        else
          RowFromJson::read_row(fields, key, sizes, budget, row);
        if constexpr (std::is_same_v<Row, RouterFrame>)  // of this program's exports: loads without rows are ratios
          if (const JsonValue* padding = fields.find("padding_fraction"); padding && padding->is_null())
            row.padding_fraction = row.tokens_per_expert.empty() ? kNoValue : kNoRows;
      });
    }
  });
  read_domains(json, info, frame);
}

int setting(const JsonFields& json, std::string_view key, int limit) {
  for (const LogName& log_name : log_names())
    if (log_name.setting == key)
      if (const JsonValue* value = member(json, {log_name.name.c_str()}))
        return to_index(*value, log_name.name.c_str(), 0, limit);
  return 0;
}

RunInfo run_info_from_json(const JsonFields& json) {
  RunInfo info;
  if (const JsonValue* run = member(json, {"run"}); run && run->is_number())
    info.run = to_index(*run, "run", 0, 1 << 20);
  if (const JsonValue* name = member(json, {"name", "run", "run_name"}); name && name->is_string())
    info.name = printable(to_text(*name, "name"));  // so that it takes one line
  if (info.name.size() > kLongestImportedName) throw Unreadable("name: longer than 4096 bytes");
  // In this program's lines `config` is TOML; in other logs a key of this name is an ordinary setting.
  if (const JsonValue* config = member(json, {"config"}); config && config->is_string())
    info.config_toml = to_text(*config, "config");
  info.kernels = text_of(json, "kernels");
  info.n_layers = setting(json, "layers", kMaxLayers);
  if (const JsonValue* layers = member(json, {"moe_layers"})) {
    const JsonList list = list_of(*layers, "moe_layers", 0, "");
    if (list.size() > kMaxImportedLayers) throw Unreadable("moe_layers: too many");
    for (const JsonValue layer : list) info.moe_layers.push_back(to_index(layer, "moe_layers", 0, kLastImportedLayer));
  }
  const int most_experts = kMaxImportedExperts;
  info.n_experts = setting(json, "experts", most_experts);
  info.top_k = setting(json, "top_k", most_experts);
  info.dim = setting(json, "dim", 1 << 24);
  const auto own_number = [&](const char* key, int limit) {
    const JsonValue* value = member(json, {key});
    return value ? to_index(*value, key, 0, limit) : 0;
  };
  info.ranks = own_number("ranks", static_cast<int>(kMaxRanks));
  info.ranks_per_node = own_number("ranks_per_node", static_cast<int>(kMaxRanks));
  info.window = own_number("window", 100000);
  const int seq = setting(json, "seq", 100'000'000);
  const int batch = setting(json, "batch", 100'000'000);
  info.tokens_per_step = std::int64_t{seq} * batch;
  if (const JsonValue* tokens = member(json, {"tokens_per_step"}))
    info.tokens_per_step = to_count(*tokens, "tokens", 1e12);
  if (const JsonValue* domains = member(json, {"domains"}); domains && domains->is_array()) {
    const JsonList list = list_of(*domains, "domains", 0, "");
    if (list.size() > kMaxImportedLayers) throw Unreadable("domains: too many");
    for (const JsonValue domain : list)
      if (domain.is_string()) info.domains.push_back(to_text(domain, "domains"));
  }
  return info;
}

}  // namespace moescope
