#include "core/logs/dumps/rank_counts.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/words.h"
#include "core/logs/dumps/expert_counts.h"
#include "core/logs/lines/log_lines.h"
#include "core/logs/part_files.h"
#include "core/logs/routing/routed_tokens.h"
#include "core/logs/runs/log_record.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestRankLine = std::size_t{64} << 20;
constexpr std::size_t kMaxRankBytes = std::size_t{1} << 30;

// A layer of the decoder or of a block of multi-token prediction.
struct BlockLayer {
  bool mtp = false;
  int block = 0, layer = 0;
  auto operator<=>(const BlockLayer&) const = default;
};
using Microbatches = std::vector<std::vector<std::uint32_t>>;  // counts of the rank's experts, by microbatch
using OfRanks = std::map<int, Microbatches>;                   // by rank

bool is_rank_name(std::string_view name) {
  return name.ends_with(".jsonl") && number_in_file_name(name, "rank") >= 0;
}

int rank_of(const fs::path& file) {
  return std::max(0, number_in_file_name(file.filename().string(), "rank"));
}

std::string first_line_of(const fs::path& file) {
  InputFile input(file.string());
  std::string line;
  input.read_line(line, 4096);
  return line;
}

// The sums of a group of ranks in each microbatch must be equal, since each holds its tokens x top_k.
class GroupSums {
 public:
  explicit GroupSums(std::size_t ranks) : ranks_(ranks) {
    for (std::size_t size = 1; size <= ranks; ++size)
      if (ranks % size == 0) sums_.push_back({size, -1, true});
  }
  // `sums`: by rank, of one microbatch.
  void add(const std::vector<std::int64_t>& sums) {
    for (Candidate& group : sums_)
      for (std::size_t first = 0; group.fits && first < ranks_; first += group.size) {
        const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(first);
        const std::int64_t sum =
            std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(group.size), std::int64_t{0});
        if (group.sum < 0) group.sum = sum;
        group.fits = sum == group.sum;
      }
  }
  // Returns the size of the smallest group that fits; 0 if none does.
  std::size_t smallest() const {
    for (const Candidate& group : sums_)
      if (group.fits) return group.size;
    return 0;
  }

 private:
  struct Candidate {
    std::size_t size;
    std::int64_t sum;
    bool fits;
  };
  std::size_t ranks_;
  std::vector<Candidate> sums_;
};

class RankCounts {
 public:
  explicit RankCounts(std::string path) : path_(std::move(path)) {}
  void begin_rank(int rank) {
    rank_ = rank;
    last_iteration_ = -1;
  }
  void read_line(std::string_view line);  // throws Unreadable
  bool empty() const { return counts_.empty(); }
  void build(const ImportOptions& options, Imported& imported);

 private:
  [[noreturn]] void fail(const std::string& reason) const { throw std::runtime_error(path_ + ": " + reason); }
  void drop_from(std::int64_t iteration);
  bool is_uneven() const;
  std::size_t experts_of_rank() const;
  std::set<int> ranks_of(const BlockLayer& layer) const;
  void drop_copies(std::vector<std::string>& remarks);
  void drop_unfinished(std::vector<std::string>& remarks);
  std::size_t ranks_of_group(std::size_t ranks, int stated_experts) const;
  std::map<BlockLayer, int> layer_numbers() const;

  std::string path_;
  JsonLines lines_;
  int rank_ = 0;
  std::int64_t last_iteration_ = -1;
  std::size_t bytes_ = 0;
  std::map<std::int64_t, std::map<BlockLayer, OfRanks>> counts_;  // by iteration
  std::set<std::int64_t> restarts_;
};

void RankCounts::read_line(std::string_view line) {
  const JsonFields json = lines_.parse(line);
  const auto required = [&](const char* key) {
    const JsonValue* found = member(json, {key});
    if (!found) throw Unreadable(std::string("no ") + key);
    return *found;
  };
  const std::int64_t iteration = to_count(required("iter"), "iter", kLastStep);
  const JsonValue* block = member(json, {"block"});
  const JsonValue* mtp_idx = member(json, {"mtp_idx"});
  BlockLayer place;
  place.mtp = block && to_text(*block, "block") == "mtp";
  if (place.mtp && mtp_idx) place.block = to_index(*mtp_idx, "mtp_idx", 0, kLastImportedLayer);
  place.layer = to_index(required("layer"), "layer", 0, kLastImportedLayer);
  Microbatches microbatches;
  for (const JsonValue counts : list_of(required("tpe"), "tpe", 0, "")) {
    const std::size_t size = microbatches.empty() ? 0 : microbatches.front().size();
    microbatches.push_back(to_counts(counts, "tpe", size));
    bytes_ += microbatches.back().size() * sizeof(std::uint32_t) + 64;
  }
  if (microbatches.empty() || microbatches.front().empty()) throw Unreadable("tpe: no counts");
  if (bytes_ > kMaxRankBytes) fail("its counts take more than 1 GiB");
  if (iteration < last_iteration_) drop_from(iteration);
  last_iteration_ = iteration;
  counts_[iteration][place][rank_] = std::move(microbatches);
}

// The training of this rank went back to a checkpoint: later iterations are those of an abandoned attempt.
void RankCounts::drop_from(std::int64_t iteration) {
  restarts_.insert(iteration);
  for (auto at = counts_.lower_bound(iteration); at != counts_.end(); ++at) {
    for (auto& [layer, ranks] : at->second) ranks.erase(rank_);
    std::erase_if(at->second, [](const auto& layer) { return layer.second.empty(); });
  }
  std::erase_if(counts_, [](const auto& layers) { return layers.second.empty(); });
}

// True if some microbatch does not have the same count for all experts, which a forced balance gives them. Without such
// a microbatch the counts do not tell how the ranks belong together.
bool RankCounts::is_uneven() const {
  for (const auto& [iteration, layers] : counts_)
    for (const auto& [layer, ranks] : layers)
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
  for (const auto& [iteration, layers] : counts_)
    for (const auto& [layer, ranks] : layers)
      for (const auto& [rank, microbatches] : ranks) {
        const std::size_t experts_here = microbatches.front().size();
        if (experts != 0 && experts_here != experts)
          fail("rank " + std::to_string(rank) + " has " + std::to_string(experts_here) + " experts at iteration " +
               std::to_string(iteration) + ", other ranks have " + std::to_string(experts));
        experts = experts_here;
      }
  return experts;
}

std::set<int> RankCounts::ranks_of(const BlockLayer& layer) const {
  std::set<int> found;
  for (const auto& [iteration, layers] : counts_)
    if (const auto of_layer = layers.find(layer); of_layer != layers.end())
      for (const auto& [rank, microbatches] : of_layer->second) found.insert(rank);
  return found;
}

// Leaves one of each block of ranks with equal counts. The size of a block is that of the expert tensor parallelism.
void RankCounts::drop_copies(std::vector<std::string>& remarks) {
  for (bool is_first = true; is_uneven(); is_first = false) {
    for (const auto& [iteration, layers] : counts_)
      for (const auto& [layer, ranks] : layers) {
        if (ranks.size() < 2 || ranks.size() % 2 != 0) return;
        for (auto rank = ranks.begin(); rank != ranks.end(); std::advance(rank, 2))
          if (rank->second != std::next(rank)->second) return;
      }
    for (auto& [iteration, layers] : counts_)
      for (auto& [layer, ranks] : layers) {
        bool second = false;
        std::erase_if(ranks, [&](const auto&) { return std::exchange(second, !second); });
      }
    if (is_first) remarks.push_back("neighbouring ranks have equal counts (expert tensor parallelism): one is read");
  }
}

// Leaves out layers of iterations for which some ranks have no line, as at the end of a training that was stopped.
void RankCounts::drop_unfinished(std::vector<std::string>& remarks) {
  std::map<BlockLayer, std::set<int>> ranks;
  for (const auto& [iteration, layers] : counts_)
    for (const auto& [layer, of_ranks] : layers) ranks.try_emplace(layer, ranks_of(layer));
  std::int64_t dropped = 0;
  for (auto& [iteration, layers] : counts_)
    dropped += static_cast<std::int64_t>(
        std::erase_if(layers, [&](const auto& layer) { return layer.second.size() != ranks[layer.first].size(); }));
  if (dropped > 0)
    remarks.push_back(moescope::counted(dropped, "layer of an iteration is", "layers of iterations are") +
                      " left out, because not all ranks have a line");
}

std::size_t RankCounts::ranks_of_group(std::size_t ranks, int stated_experts) const {
  const std::size_t local = experts_of_rank(), stated = stated_experts;
  if (stated > 0) {
    if (stated % local != 0 || ranks % (stated / local) != 0)
      fail("has " + std::to_string(ranks) + " ranks with " + std::to_string(local) +
           " experts each, which does not fit --experts " + std::to_string(stated));
    return stated / local;
  }
  if (ranks == 1) return 1;
  GroupSums sums(ranks);
  for (const auto& [iteration, layers] : counts_)
    for (const auto& [layer, of_ranks] : layers) {
      if (of_ranks.size() != ranks) continue;
      for (std::size_t m = 0; m < of_ranks.begin()->second.size(); ++m) {
        std::vector<std::int64_t> by_rank;
        for (const auto& [rank, microbatches] : of_ranks) {
          if (m >= microbatches.size()) fail("rank " + std::to_string(rank) + " has fewer microbatches than others");
          const auto& counts = microbatches[m];
          by_rank.push_back(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
        }
        sums.add(by_rank);
      }
    }
  const std::size_t size = sums.smallest();
  if (size > 0 && is_uneven()) return size;
  throw AmbiguousRouting(path_ + ": " + std::to_string(ranks) + " ranks have " + std::to_string(local) +
                         " experts each; how many of them are a group of expert parallelism is not in the files: "
                         "--experts states the number of experts of a layer");
}

std::map<BlockLayer, int> RankCounts::layer_numbers() const {
  std::map<BlockLayer, int> numbers;
  for (const auto& [iteration, layers] : counts_)
    for (const auto& [layer, ranks] : layers) numbers[layer];
  int next = 0;
  for (auto& [layer, number] : numbers) {  // those of the decoder come first
    number = layer.mtp ? next : layer.layer;
    next = number + 1;
  }
  return numbers;
}

void RankCounts::build(const ImportOptions& options, Imported& imported) {
  std::vector<std::string>& remarks = imported.remarks;
  drop_copies(remarks);
  drop_unfinished(remarks);
  const std::map<BlockLayer, int> numbers = layer_numbers();
  ExpertCounts sums(path_);
  std::map<std::size_t, std::size_t> group_sizes;  // by number of ranks
  const std::size_t local = experts_of_rank();
  for (const auto& [iteration, layers] : counts_)
    for (const auto& [layer, ranks] : layers) {
      if (!group_sizes.contains(ranks.size()))
        group_sizes[ranks.size()] = ranks_of_group(ranks.size(), options.routed.experts);
      const std::size_t group = group_sizes[ranks.size()];
      std::size_t i = 0;
      for (const auto& [rank, microbatches] : ranks) {
        const std::size_t first = i++ % group * local;
        const std::string place = "rank " + std::to_string(rank) + ", iteration " + std::to_string(iteration);
        for (const auto& counts : microbatches)
          for (std::size_t e = 0; e < counts.size(); ++e)
            sums.add_one(iteration, numbers.at(layer), first + e, counts[e], place);
      }
    }
  if (sums.empty()) fail("has no line with all ranks");
  for (const auto& [ranks, group] : group_sizes)
    remarks.push_back(moescope::counted(ranks, "rank", "ranks") + " in groups of " + std::to_string(group) + ", " +
                      std::to_string(group * local) + " experts");
  for (const auto& [layer, number] : numbers)
    if (layer.mtp)
      remarks.push_back("layer " + std::to_string(layer.layer) + " of the prediction block " +
                        std::to_string(layer.block) + " is shown as layer " + std::to_string(number));
  for (const std::int64_t step : restarts_) remarks.push_back("continues from step " + std::to_string(step));
  RunInfo info;
  info.run = options.run;
  const fs::path path = fs::absolute(path_).lexically_normal();
  info.name =
      fs::is_directory(path) && path.filename().empty() ? path.parent_path().filename().string() : path.stem().string();
  sums.build(std::move(info), options, row_of_counts("tpe", 1, Certainty::known_program), imported);
}

std::vector<fs::path> rank_files(const std::string& folder) {
  std::vector<fs::path> files = files_in(folder, is_rank_name);
  std::erase_if(files, [](const fs::path& file) { return !is_rank_counts_line(first_line_of(file)); });
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
      throw std::runtime_error(path + ": has the experts of one rank; open its folder, " + folder.string() +
                               (rank_file_count > 1 ? "" : ", with the files of all ranks"));
  }
  for (const fs::path& file : files) {
    counts.begin_rank(rank_of(file));
    const auto read_line = [&](std::string_view line) { counts.read_line(line); };
    if (!take_lines({file}, kLongestRankLine, read_line, options, imported)) return {};
  }
  if (counts.empty()) throw std::runtime_error(path + ": has no line of counts" + imported.bad.first_reason());
  const int last_rank = rank_of(files.back());
  if (last_rank + 1 != std::ssize(files))
    throw std::runtime_error(path + ": has the files of " + std::to_string(files.size()) + " ranks up to rank " +
                             std::to_string(last_rank) + "; some are missing");
  counts.build(options, imported);
  return imported;
}

}  // namespace moescope
