#include "core/cluster/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace moescope {
namespace {

struct RankLoad {
  double network_copies, nvlink_copies;  // the larger of sent and received
  double rows;                           // rows that its experts compute
};

std::vector<RankLoad> rank_loads_of(const VolumeFrame& volume, AllToAll kind, double scale) {
  const std::vector<LinkCopies> links = copies_by_link(volume, kind);
  const std::vector<std::uint64_t> rows = received_tokens(volume, AllToAll::standard);
  std::vector<RankLoad> loads;
  for (std::size_t r = 0; r < links.size(); ++r) {
    loads.push_back({std::max(links[r].network_out, links[r].network_in) * scale,
                     std::max(links[r].nvlink_out, links[r].nvlink_in) * scale, rows[r] * scale});
  }
  return loads;
}

class Layer {
 public:
  Layer(const StepConfig& config, const StepParameters& parameters, std::vector<RankLoad> loads)
      : c_(config),
        rates_(layer_rates(config, parameters)),
        loads_(std::move(loads)),
        by_rank_(loads_.size()),
        waited_for_us_(loads_.size()) {}

  LayerTimeline run() {
    const std::vector<AllToAllOp> ops = all_to_all_ops(c_.payload, false);
    pass(ops[0], ops[1], 1, false);
    pass(ops[2], ops[3], 2, true);  // dgrad and wgrad
    return collect();
  }

 private:
  void pass(const AllToAllOp& towards, const AllToAllOp& back, double gemms, bool backward) {
    exchange(RankActivity::dispatch, towards, backward);
    for (std::size_t r = 0; r < loads_.size(); ++r)
      add(r, RankActivity::experts, backward, loads_[r].rows * gemms * rates_.expert_row_us);
    exchange(RankActivity::combine, back, backward);
  }

  void exchange(RankActivity activity, const AllToAllOp& op, bool backward) {
    const double bytes = bytes_per_token(op.payload, c_.shape.row_dim());
    std::size_t last = 0;
    for (std::size_t r = 0; r < loads_.size(); ++r) {
      const double network = loads_[r].network_copies * bytes / (rates_.network_GBps * 1e3);
      const double nvlink = loads_[r].nvlink_copies * bytes / (rates_.nvlink_GBps * 1e3);
      add(r, activity, backward, (std::max(network, nvlink) + rates_.latency_us) * (1 - c_.overlap));
      if (end_of(r) > end_of(last)) last = r;
    }
    for (std::size_t r = 0; r < loads_.size(); ++r) {
      waited_for_us_[last] += end_of(last) - end_of(r);
      add(r, RankActivity::waiting, backward, end_of(last) - end_of(r));
    }
  }

  double end_of(std::size_t rank) const { return by_rank_[rank].empty() ? 0 : by_rank_[rank].back().to_us; }

  void add(std::size_t rank, RankActivity activity, bool backward, double us) {
    if (us > 0) by_rank_[rank].push_back({to_int(rank), activity, backward, end_of(rank), end_of(rank) + us});
  }

  LayerTimeline collect() const {
    LayerTimeline timeline;
    timeline.ranks = to_int(loads_.size());
    double waiting = 0, all = 0;
    for (const std::vector<RankInterval>& intervals : by_rank_) {
      for (const RankInterval& interval : intervals) {
        timeline.intervals.push_back(interval);
        timeline.total_us = std::max(timeline.total_us, interval.to_us);
        const double us = interval.to_us - interval.from_us;
        all += us;
        if (interval.activity == RankActivity::waiting) waiting += us;
      }
    }
    timeline.waiting_share = all > 0 ? waiting / all : 0;
    timeline.slowest = to_int(std::ranges::max_element(waited_for_us_) - waited_for_us_.begin());
    return timeline;
  }

  const StepConfig& c_;
  LayerRates rates_;
  std::vector<RankLoad> loads_;
  std::vector<std::vector<RankInterval>> by_rank_;
  std::vector<double> waited_for_us_;  // time that all other ranks wait for each rank
};

}  // namespace

LayerTimeline layer_timeline(const StepConfig& config, const StepParameters& parameters, const VolumeFrame& volume,
                             std::int64_t tokens) {
  StepConfig c = config;
  c.traffic = routing_traffic(volume, tokens, c.all_to_all);
  step_time(c, parameters);  // throws if the config is impossible
  const double rank_tokens =
      static_cast<double>(c.seq * c.microbatch_sequences) / c.tp * token_duplication(c, parameters);
  const double scale = rank_tokens * volume.ranks / tokens;
  return Layer(c, parameters, rank_loads_of(volume, c.all_to_all, scale)).run();
}

namespace {

// Perfetto keeps whole nanoseconds and drops overlapping intervals. Ends are rounded first, so that one interval ends
// where the next begins.
double whole_ns(double us) {
  return std::round(us * 1e3);
}

}  // namespace

std::string to_chrome_trace(const LayerTimeline& timeline, const std::string& title) {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 0}, {"args", {{"name", title + " (modelled)"}}}});
  for (int rank = 0; rank < timeline.ranks; ++rank) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", rank},
                      {"args", {{"name", fmt::format("rank {}", rank)}}}});
  }
  for (const RankInterval& interval : timeline.intervals) {
    events.push_back({{"name", rank_activity_name(interval.activity)},
                      {"cat", interval.backward ? "backward" : "forward"},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", interval.rank},
                      {"ts", whole_ns(interval.from_us) / 1e3},
                      {"dur", (whole_ns(interval.to_us) - whole_ns(interval.from_us)) / 1e3},
                      {"args", {{"pass", interval.backward ? "backward" : "forward"}, {"kind", "modelled"}}}});
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump(1);
}

}  // namespace moescope
