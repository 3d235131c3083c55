#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/words.h"
#include "core/logs/dumps/dump_readers.h"
#include "core/logs/import.h"
#include "core/logs/log_readers.h"
#include "core/logs/routing/routed_tokens.h"
#include "core/logs/runs/log_record.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestRankLine = std::size_t{64} << 20;
constexpr std::size_t kMaxRankBytes = std::size_t{1} << 30;

using Microbatches = std::vector<std::vector<std::uint32_t>>;  // counts of the rank's experts, by microbatch
using OfRanks = std::map<int, Microbatches>;                   // by rank
using LayerOfIteration = std::pair<std::int64_t, RoutedLayer>;

bool is_rank_name(std::string_view name) {
  return name.ends_with(".jsonl") && number_in_file_name(name, "rank") >= 0;
}

int rank_of(const fs::path& file) {
  return std::max(0, number_in_file_name(file.filename().string(), "rank"));
}

class RankCounts {
 public:
  explicit RankCounts(std::string path) : path_(std::move(path)) {}
  void begin_rank(int rank) {
    rank_ = rank;
    last_iteration_ = -1;
  }
  void read_line(std::string_view line);  // throws Unreadable
  bool empty() const { return counts_.empty(); }
  Imported build(const ImportOptions& options, Imported imported);

 private:
  [[noreturn]] void fail(const std::string& reason) const { refuse(path_, reason); }
  void drop_from(std::int64_t iteration);
  bool is_uneven() const;
  std::size_t experts_of_rank() const;
  void drop_copies(std::vector<std::string>& remarks);
  void drop_unfinished(std::vector<std::string>& remarks);
  bool have_equal_sums(std::size_t ranks, std::size_t group) const;
  std::size_t ranks_of_group(std::size_t ranks, std::size_t local_experts, std::size_t stated_experts) const;

  std::string path_;
  JsonLines lines_;
  int rank_ = 0;
  std::int64_t last_iteration_ = -1;
  std::size_t bytes_ = 0;
  std::map<LayerOfIteration, OfRanks> counts_;
  std::set<std::int64_t> restarts_;
};

void RankCounts::read_line(std::string_view line) {
  const JsonFields json = lines_.parse(line);
  const std::int64_t iteration = to_count(required(json, "iter"), "iter", kLastStep);
  const RoutedLayer place = routed_layer(json);
  Microbatches microbatches;
  for (const JsonValue counts : list_of(required(json, "tpe"), "tpe", 0, "")) {
    const std::size_t size = microbatches.empty() ? 0 : microbatches.front().size();
    microbatches.push_back(to_counts(counts, "tpe", size));
    bytes_ += microbatches.back().size() * sizeof(std::uint32_t) + 64;
  }
  if (microbatches.empty() || microbatches.front().empty()) throw Unreadable("tpe: no counts");
  if (bytes_ > kMaxRankBytes) fail("its counts take more than 1 GiB");
  if (iteration < last_iteration_) drop_from(iteration);
  last_iteration_ = iteration;
  counts_[{iteration, place}][rank_] = std::move(microbatches);
}

// The training of this rank went back to a checkpoint: later iterations are those of an abandoned attempt.
void RankCounts::drop_from(std::int64_t iteration) {
  restarts_.insert(iteration);
  for (auto at = counts_.lower_bound({iteration, {}}); at != counts_.end(); ++at) at->second.erase(rank_);
  std::erase_if(counts_, [](const auto& layer) { return layer.second.empty(); });
}

// True if some microbatch does not have the same count for all experts, which a forced balance gives them. Without such
// a microbatch the counts do not tell how the ranks belong together.
bool RankCounts::is_uneven() const {
  for (const auto& [place, ranks] : counts_)
    for (const auto& [rank, microbatches] : ranks)
      for (std::size_t m = 0; m < microbatches.size(); ++m) {
        const Microbatches& first = ranks.begin()->second;
        const std::uint32_t count = first[std::min(m, first.size() - 1)].front();
        if (std::ranges::any_of(microbatches[m], [&](std::uint32_t other) { return other != count; })) return true;
      }
  return false;
}

std::size_t RankCounts::experts_of_rank() const {
  std::size_t experts = 0;
  for (const auto& [place, ranks] : counts_)
    for (const auto& [rank, microbatches] : ranks) {
      const std::size_t experts_here = microbatches.front().size();
      if (experts != 0 && experts_here != experts)
        fail(fmt::format("rank {} has {} experts at iteration {}, other ranks have {}", rank, experts_here, place.first,
                         experts));
      experts = experts_here;
    }
  return experts;
}

// Leaves one of each block of ranks with equal counts. The size of a block is that of the expert tensor parallelism.
void RankCounts::drop_copies(std::vector<std::string>& remarks) {
  for (bool is_first = true; is_uneven(); is_first = false) {
    for (const auto& [place, ranks] : counts_) {
      if (ranks.size() < 2 || ranks.size() % 2 != 0) return;
      for (auto rank = ranks.begin(); rank != ranks.end(); std::advance(rank, 2))
        if (rank->second != std::next(rank)->second) return;
    }
    for (auto& [place, ranks] : counts_) {
      bool second = false;
      std::erase_if(ranks, [&](const auto&) { return std::exchange(second, !second); });
    }
    if (is_first) remarks.push_back("neighbouring ranks have equal counts (expert tensor parallelism): one is read");
  }
}

// Leaves out layers of iterations for which some ranks have no line, as at the end of a training that was stopped.
void RankCounts::drop_unfinished(std::vector<std::string>& remarks) {
  std::map<RoutedLayer, std::set<int>> ranks_of_layer;
  for (const auto& [place, ranks] : counts_)
    for (const auto& [rank, microbatches] : ranks) ranks_of_layer[place.second].insert(rank);
  const std::size_t dropped = std::erase_if(
      counts_, [&](const auto& layer) { return layer.second.size() != ranks_of_layer[layer.first.second].size(); });
  if (dropped > 0)
    remarks.push_back(counted(dropped, "layer of an iteration is", "layers of iterations are") +
                      " left out, because not all ranks have a line");
}

// True if each `group` of these ranks has the same number of counts in all microbatches: its tokens x top_k.
bool RankCounts::have_equal_sums(std::size_t ranks, std::size_t group) const {
  std::set<std::int64_t> sums;
  for (const auto& [place, by_rank] : counts_) {
    if (by_rank.size() != ranks) continue;
    for (std::size_t m = 0; m < by_rank.begin()->second.size(); ++m) {
      std::size_t in_group = 0;
      std::int64_t sum = 0;
      for (const auto& [rank, microbatches] : by_rank) {
        if (m >= microbatches.size()) fail(fmt::format("rank {} has fewer microbatches than others", rank));
        sum += sum_of(microbatches[m]);
        if (++in_group % group == 0) sums.insert(std::exchange(sum, 0));
      }
      if (sums.size() > 1) return false;
    }
  }
  return true;
}

std::size_t RankCounts::ranks_of_group(std::size_t ranks, std::size_t local, std::size_t stated) const {
  if (stated > 0) {
    if (stated % local != 0 || ranks % (stated / local) != 0)
      fail(fmt::format("has {} ranks with {} experts each, which does not fit --experts {}", ranks, local, stated));
    return stated / local;
  }
  if (ranks == 1) return 1;
  for (std::size_t group = 1; group <= ranks && is_uneven(); ++group)
    if (ranks % group == 0 && have_equal_sums(ranks, group)) return group;
  throw AmbiguousRouting(
      fmt::format("{}: {} ranks have {} experts each; how many of them are a group of expert parallelism is not in the "
                  "files: --experts states the number of experts of a layer",
                  path_, ranks, local));
}

Imported RankCounts::build(const ImportOptions& options, Imported imported) {
  std::vector<std::string>& remarks = imported.remarks;
  drop_copies(remarks);
  drop_unfinished(remarks);
  std::map<RoutedLayer, int> numbers;
  for (const auto& [layer, ranks] : counts_) numbers[layer.second];
  number_layers(numbers);
  ExpertCounts sums(path_, options);
  std::map<std::size_t, std::size_t> group_sizes;  // by number of ranks
  const std::size_t local = experts_of_rank();
  for (const auto& [layer, ranks] : counts_) {
    if (!group_sizes.contains(ranks.size()))
      group_sizes[ranks.size()] = ranks_of_group(ranks.size(), local, options.routed.experts);
    const std::size_t group = group_sizes[ranks.size()];
    std::size_t i = 0;
    for (const auto& [rank, microbatches] : ranks) {
      const std::size_t first = i++ % group * local;
      const std::string place = fmt::format("rank {}, iteration {}", rank, layer.first);
      for (const auto& counts : microbatches)
        for (std::size_t e = 0; e < counts.size(); ++e)
          sums.add_one(layer.first, numbers.at(layer.second), to_int(first + e), counts[e], place);
    }
  }
  if (sums.empty()) fail("has no line with all ranks");
  for (const auto& [ranks, group] : group_sizes)
    remarks.push_back(
        fmt::format("{} in groups of {}, {} experts", counted(ranks, "rank", "ranks"), group, group * local));
  for (const auto& [layer, number] : numbers)
    if (layer.mtp) remarks.push_back(fmt::format("prediction block {} is shown as layer {}", layer.layer, number));
  for (const std::int64_t step : restarts_) remarks.push_back(fmt::format("continues from step {}", step));
  return sums.build("tpe", std::move(imported));
}

std::vector<fs::path> rank_files(const std::string& folder) {
  std::vector<fs::path> files = files_in(folder, is_rank_name);
  std::erase_if(files, [](const fs::path& file) { return !is_rank_counts_line(beginning_of(file.string(), 4096)); });
  std::ranges::sort(files, {}, rank_of);
  return files;
}

}  // namespace

bool is_rank_counts_line(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  return line.starts_with('{') && line.find("\"tpe\"") != std::string_view::npos &&
         line.find("\"iter\"") != std::string_view::npos && line.find("\"layer\"") != std::string_view::npos;
}

bool holds_rank_counts(const std::string& folder) {
  return !rank_files(folder).empty();
}

Imported import_rank_counts(const std::string& path, const ImportOptions& options) {
  Imported imported;
  RankCounts counts(path);
  const bool is_folder = fs::is_directory(path);
  const std::vector<fs::path> files = is_folder ? rank_files(path) : std::vector<fs::path>{path};
  if (!is_folder) {
    const fs::path folder = fs::absolute(path).parent_path();
    const std::size_t rank_file_count = rank_files(folder.string()).size();
    const int rank = rank_of(path);
    if (rank_file_count > 1 || rank > 0)
      refuse(path, "has the experts of one rank; open its folder, " + folder.string() +
                       (rank_file_count > 1 ? "" : ", with the files of all ranks"));
  }
  for (const fs::path& file : files) {
    counts.begin_rank(rank_of(file));
    const auto read_line = [&](std::string_view line) { counts.read_line(line); };
    if (!take_lines({file}, kLongestRankLine, read_line, options, imported)) return {};
  }
  if (counts.empty()) refuse(path, "has no line of counts" + imported.bad.first_reason());
  const int last_rank = rank_of(files.back());
  if (last_rank + 1 != std::ssize(files))
    refuse(path, fmt::format("has the files of {} ranks up to rank {}; some are missing", files.size(), last_rank));
  return counts.build(options, std::move(imported));
}

}  // namespace moescope
