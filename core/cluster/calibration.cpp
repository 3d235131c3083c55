#include "core/cluster/calibration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "core/files/input_file.h"
#include "core/files/text/json_text.h"
#include "core/files/text/words.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
constexpr double kMaxCount = 1e15;
constexpr double kMaxSkew = 8;  // Zipf exponent; above 3 one expert has nearly all rows

// Reads a file and collects the figures that rows of its lists lack.
class Reader {
 public:
  Reader(const Json& root, std::string path) : root_(root), path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& place, const std::string& what) const {
    throw std::runtime_error(path_ + ": " + place + ": " + what);
  }

  const Json* find(const Json& object, const char* key) const {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  // Returns a number within [low, high]; NaN if absent. `place` is empty outside of lists.
  double number(const Json& row, const std::string& place, const char* key, double low, double high = kMaxCount) const {
    const Json* value = find(row, key);
    if (!value) return kNoFigure;
    if (!value->is_number()) fail(at(place, key), std::string("is ") + value->type_name() + ", a number is needed");
    const double number = value->get<double>();
    if (!(number >= low && number <= high))
      fail(at(place, key), "is " + value->dump() + "; allowed: " + text(low) + " to " + text(high));
    return number;
  }
  double time(const Json& row, const std::string& place, const char* key) const {
    return number(row, place, key, 1e-6, 1e9);
  }
  int count(const Json& row, const std::string& place, const char* key) const {
    const double value = number(row, place, key, 1, 1 << 20);
    if (std::isnan(value)) return 0;
    if (value != std::floor(value)) fail(at(place, key), "is " + text(value) + ", a whole number is needed");
    return static_cast<int>(value);
  }
  std::string words(const Json& row, const std::string& place, const char* key) const {
    const Json* value = find(row, key);
    if (!value) return {};
    if (!value->is_string()) fail(at(place, key), std::string("is ") + value->type_name() + ", a text is needed");
    return value->get<std::string>();
  }

  // Visits the rows of a list. If the list is absent or empty and `needed_for` is not empty, notes that with
  // `needed_for`.
  template <class Visit>
  void rows(const char* list, const char* needed_for, Visit visit) {
    const Json* array = find(root_, list);
    if (!array) {
      if (*needed_for) missing_.push_back(std::string(list) + ": not in the file; " + needed_for);
      return;
    }
    if (!array->is_array()) fail(list, std::string("is ") + array->type_name() + ", a list is needed");
    for (std::size_t i = 0; i < array->size(); ++i) {
      const std::string place = std::string(list) + "[" + std::to_string(i) + "]";
      if (!(*array)[i].is_object()) fail(place, std::string("is ") + (*array)[i].type_name() + ", an object is needed");
      visit((*array)[i], place);
    }
    if (array->empty() && *needed_for) missing_.push_back(std::string(list) + ": is empty; " + needed_for);
  }

  // Returns false, with a note, if the row lacks a figure that it needs.
  bool has(const char* list, std::initializer_list<std::pair<const char*, double>> figures) {
    bool complete = true;
    for (const auto& [key, value] : figures) {
      if (!std::isnan(value)) continue;
      ++notes_[std::string(list) + ": rows without " + key + " are not used"];
      complete = false;
    }
    return complete;
  }
  void note(const std::string& what) { ++notes_[what]; }

  std::vector<std::string> missing() const {
    std::vector<std::string> all = missing_;
    for (const auto& [what, times] : notes_) all.push_back(what + " (" + std::to_string(times) + ")");
    return all;
  }

  static std::string text(double value) { return formatted(value == std::floor(value) ? "%.0f" : "%.6g", value); }

 private:
  static std::string at(const std::string& place, const char* key) { return place.empty() ? key : place + "." + key; }

  const Json& root_;
  std::string path_;
  std::vector<std::string> missing_;
  std::map<std::string, int> notes_;  // number of rows by note
};

void read_all_to_all(Reader& in, Calibration& out) {
  in.rows("all_to_all_uniform", "no time for the standard all-to-all", [&](const Json& row, const std::string& place) {
    const AllToAllPoint point{in.number(row, place, "bytes_per_rank", 1), in.time(row, place, "ms")};
    if (in.has("all_to_all_uniform", {{"bytes_per_rank", point.bytes_per_rank}, {"ms", point.ms}}))
      out.all_to_all.push_back(point);
  });
  in.rows("all_to_all_hot_rank", "a hot rank takes the time of as many more bytes for everyone",
          [&](const Json& row, const std::string& place) {
            const HotRankPoint point{in.number(row, place, "hot_rank_load_over_mean", 1, 1e6),
                                     in.number(row, place, "bytes_per_rank_sent", 1), in.time(row, place, "ms")};
            if (in.has("all_to_all_hot_rank", {{"hot_rank_load_over_mean", point.load_over_mean},
                                               {"bytes_per_rank_sent", point.bytes_per_rank},
                                               {"ms", point.ms}}))
              out.hot_rank.push_back(point);
          });
}

void read_deep_ep(Reader& in, Calibration& out) {
  in.rows("deep_ep", "no time for DeepEP", [&](const Json& row, const std::string& place) {
    const DeepEpPoint point{in.number(row, place, "D", 1),        in.number(row, place, "tokens", 1),
                            in.number(row, place, "received", 1), in.time(row, place, "layout_ms"),
                            in.time(row, place, "dispatch_ms"),   in.time(row, place, "dispatch_cached_ms"),
                            in.time(row, place, "combine_ms")};
    if (std::isnan(point.dispatch_cached_ms))
      in.note("deep_ep: rows without dispatch_cached_ms take dispatch_ms for the backward's dispatch");
    if (std::isnan(point.layout_ms)) in.note("deep_ep: rows without layout_ms count no time for the layout");
    if (in.has("deep_ep", {{"D", point.dim},
                           {"tokens", point.tokens},
                           {"received", point.received},
                           {"dispatch_ms", point.dispatch_ms},
                           {"combine_ms", point.combine_ms}}))
      out.deep_ep.push_back(point);
  });
}

void read_grouped_gemm(Reader& in, Calibration& out) {
  in.rows("grouped_gemm", "no time for the experts", [&](const Json& row, const std::string& place) {
    GroupedGemmPoint point{in.words(row, place, "shape"),
                           in.count(row, place, "groups"),
                           in.number(row, place, "tokens", 1),
                           in.number(row, place, "skew", 0, kMaxSkew),
                           in.number(row, place, "max_over_mean", 0.99, 1e6),
                           in.time(row, place, "bf16_ms"),
                           in.time(row, place, "bf16_dgrad_ms"),
                           in.time(row, place, "bf16_wgrad_ms")};
    if (std::isnan(point.skew)) point.skew = 0;
    if (point.skew == 0 && std::isnan(point.max_over_mean)) point.max_over_mean = 1;
    if (point.shape.empty()) return in.note("grouped_gemm: rows without shape are not used");
    if (point.groups == 0) in.note("grouped_gemm: rows without groups; their number is inferred from the skewed rows");
    if (std::isnan(point.dgrad_ms)) in.note("grouped_gemm: rows without bf16_dgrad_ms take the forward time");
    if (std::isnan(point.wgrad_ms)) in.note("grouped_gemm: rows without bf16_wgrad_ms take the forward time");
    if (in.has("grouped_gemm",
               {{"tokens", point.tokens}, {"max_over_mean", point.max_over_mean}, {"bf16_ms", point.forward_ms}}))
      out.grouped_gemm.push_back(point);
  });
}

std::vector<std::int64_t> read_counts(const Reader& in, const Json& row, const std::string& place, int world) {
  std::vector<std::int64_t> counts;
  const Json* list = in.find(row, "tokens_per_expert");
  if (!list) return counts;
  const std::string counts_place = place + ".tokens_per_expert";
  if (!list->is_array()) in.fail(counts_place, std::string("is ") + list->type_name() + ", a list is needed");
  std::int64_t total = 0;
  for (const Json& value : *list) {
    const double count = value.is_number() ? value.get<double>() : -1;
    if (!(count >= 0 && count <= kMaxCount && count == std::floor(count)))
      in.fail(counts_place, "holds " + value.dump() + ", whole numbers of 0 or more are needed");
    counts.push_back(static_cast<std::int64_t>(count));
    total += counts.back();
  }
  if (counts.empty() || counts.size() % static_cast<std::size_t>(world))
    in.fail(counts_place, "has " + std::to_string(counts.size()) +
                              " experts, which do not lie evenly on world = " + std::to_string(world) + " ranks");
  if (total == 0) in.fail(counts_place, "is all zero");
  return counts;
}

// Returns the Zipf exponent of "skewed:0.6" or "zipf:0.6"; NaN for other routings.
double skew_of(const std::string& label) {
  for (const std::string rule : {"skewed:", "zipf:"}) {
    double skew = kNoFigure;
    if (label.starts_with(rule) && read_number(std::string_view(label).substr(rule.size()), skew) && skew >= 0 &&
        skew <= kMaxSkew)
      return skew;
  }
  return kNoFigure;
}

// Throws if counts, tokens and ranks of a layer, which are redundant, contradict each other: one of them is wrong.
void check_layer(const Reader& in, const std::string& place, const LayerShape& shape, const ClusterRouting& routing,
                 int world) {
  constexpr double kTolerance = 0.02;
  const double stated_ratio = routing.rank_max_over_mean;
  if (stated_ratio > world * (1 + kTolerance))
    in.fail(place + ".rank_max_over_mean",
            "is " + Reader::text(stated_ratio) + ", more than world = " + std::to_string(world) + " ranks can have");
  const std::vector<std::int64_t>& counts = routing.tokens_per_expert;
  if (counts.empty()) return;
  const double rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const double per_rank = routing.tokens_per_rank * shape.top_k;
  if (per_rank > 0 && std::fabs(rows / (per_rank * world) - 1) > kTolerance)
    in.fail(place + ".tokens_per_expert",
            "counts " + Reader::text(rows) + " rows of all ranks, but tokens_per_rank x top_k x world is " +
                Reader::text(routing.tokens_per_rank) + " x " + std::to_string(shape.top_k) + " x " +
                std::to_string(world) + " = " + Reader::text(per_rank * world) +
                "; one of them is wrong (world = " + Reader::text(rows / per_rank) + " would fit)");
  const std::size_t local = counts.size() / world;
  double fullest = 0;
  for (std::size_t first = 0; first < counts.size(); first += local) {
    const auto begin = counts.begin() + first;
    fullest = std::max(fullest, static_cast<double>(std::accumulate(begin, begin + local, std::int64_t{0})));
  }
  const double counted = fullest * world / rows;
  if (std::fabs(counted / stated_ratio - 1) > kTolerance)
    in.fail(place + ".rank_max_over_mean", "is " + Reader::text(stated_ratio) +
                                               ", but tokens_per_expert over world = " + std::to_string(world) +
                                               " ranks gives " + Reader::text(counted) + "; one of them is wrong");
}

// Returns the time under its newer name, or else under its older one.
double first_known(double first, double second) {
  return std::isnan(first) ? second : first;
}

void read_layers(Reader& in, Calibration& out) {
  in.rows("ep_layer", "no measured layer to compare with", [&](const Json& row, const std::string& place) {
    MeasuredLayer layer;
    layer.shape = {in.words(row, place, "model"), in.count(row, place, "D"), in.count(row, place, "H"),
                   in.count(row, place, "E"), in.count(row, place, "top_k")};
    ClusterRouting& routing = layer.routing;
    routing.label = in.words(row, place, "routing");
    routing.tokens_per_rank = in.number(row, place, "tokens_per_rank", 1);
    routing.tokens_per_expert = read_counts(in, row, place, out.world);
    routing.rank_max_over_mean = in.number(row, place, "rank_max_over_mean", 0.99, 1e6);
    routing.expert_max_over_mean = in.number(row, place, "expert_max_over_mean", 0.99, 1e6);
    routing.skew = in.number(row, place, "skew", 0, kMaxSkew);
    if (std::isnan(routing.skew)) routing.skew = skew_of(routing.label);
    routing.copies_per_token_deep_ep = in.number(row, place, "copies_per_token_deep_ep", 0.5, 1e4);
    layer.times = {first_known(in.time(row, place, "standard_comm_ms"), in.time(row, place, "comm_4x_a2a_ms")),
                   first_known(in.time(row, place, "standard_layer_ms"), in.time(row, place, "layer_ms")),
                   in.time(row, place, "deep_ep_comm_ms"), in.time(row, place, "deep_ep_layer_ms"),
                   in.time(row, place, "experts_ms")};
    if (layer.shape.n_experts && !routing.tokens_per_expert.empty() &&
        routing.tokens_per_expert.size() != static_cast<std::size_t>(layer.shape.n_experts))
      in.fail(place + ".tokens_per_expert", "has " + std::to_string(routing.tokens_per_expert.size()) +
                                                " experts, E is " + std::to_string(layer.shape.n_experts));
    check_layer(in, place, layer.shape, routing, out.world);
    if (in.has("ep_layer", {{"tokens_per_rank", routing.tokens_per_rank}})) out.layers.push_back(std::move(layer));
  });
}

// Adds a note if times seem to be in another unit than ms, judged by the bandwidth of the largest message.
void check_unit(Reader& in, const Calibration& calibration) {
  constexpr double kSlowest = 1, kFastest = 20'000;  // GB/s per rank in an all-to-all between GPUs
  if (calibration.all_to_all.empty()) return;
  const AllToAllPoint& largest = *std::ranges::max_element(calibration.all_to_all, {}, &AllToAllPoint::bytes_per_rank);
  const double GBps = largest.bytes_per_rank / (largest.ms * 1e6);
  if (GBps < kSlowest || GBps > kFastest)
    in.note("all_to_all_uniform: the largest message would travel at " + Reader::text(GBps) +
            " GB/s; are these times in ms?");
}

}  // namespace

Calibration parse_calibration(std::string_view text, const std::string& path) {
  Json root;
  try {
    root = parse_json(text);
  } catch (const BadJson& error) {
    throw std::runtime_error(path + ": is not JSON: " + error.what());
  }
  if (!root.is_object()) throw std::runtime_error(path + ": holds " + root.type_name() + ", an object is needed");
  Reader in(root, path);
  Calibration out;
  out.path = path;
  out.gpu = in.words(root, "", "gpu");
  out.world = in.count(root, "", "world");
  if (out.world == 0) in.fail("world", "not in the file; the number of ranks that were measured is needed");
  out.memory_copy_GBps = in.number(root, "", "memory_copy_GBps", 1, 1e6);
  read_all_to_all(in, out);
  read_deep_ep(in, out);
  read_grouped_gemm(in, out);
  read_layers(in, out);
  check_unit(in, out);
  out.missing = in.missing();
  return out;
}

Calibration read_calibration(const std::string& path) {
  return parse_calibration(read_file(path, kMaxBytes, "calibration"), path);
}

}  // namespace moescope
