#include "core/files/import_trace.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/io/input_file.h"
#include "core/io/json_line.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestLine = std::size_t{256} << 20;
constexpr int kMaxLayer = static_cast<int>(kMaxImportedLayers);
constexpr int kMaxTopK = 1024;
// Of the tables of experts chosen together, all layers and steps.
constexpr std::size_t kMaxTogetherBytes = std::size_t{64} << 20;

struct Place {
  bool mtp = false;
  int layer = 0;
  bool operator<(const Place& other) const { return std::pair(mtp, layer) < std::pair(other.mtp, other.layer); }
};

// What all microbatches and ranks chose in one layer at one step.
struct Chosen {
  std::vector<std::uint32_t> load;                        // [highest expert + 1]
  std::map<std::pair<int, int>, std::uint32_t> together;  // tokens that chose both, i <= j
  std::int64_t tokens = 0;
};

class Trace {
 public:
  void read_line(std::string_view line);  // throws Unreadable
  bool understood() const { return !steps_.empty(); }
  std::shared_ptr<History> build(RunInfo info, const ImportOptions& options);

 private:
  std::vector<int> row_of(JsonValue row, std::size_t top_k);
  std::map<Place, int> layer_numbers() const;
  SpecialisationFrame together(const Chosen& chosen, int layer) const;

  JsonLines lines_;
  std::map<std::int64_t, std::map<Place, Chosen>> steps_;
  int experts_ = 0, top_k_ = 0;
};

std::vector<int> Trace::row_of(JsonValue row, std::size_t top_k) {
  std::vector<int> experts;
  for (const JsonValue each : list_of(row, "top_indices", top_k, "experts"))
    experts.push_back(to_index(each, "top_indices", 0, static_cast<int>(kMaxImportedExperts) - 1));
  return experts;
}

void Trace::read_line(std::string_view line) {
  const JsonFields json = lines_.parse(line);
  const auto required = [&](const char* key) {
    const JsonValue* found = member(json, {key});
    if (!found) throw Unreadable(std::string("no ") + key);
    return *found;
  };
  const std::int64_t step = to_count(required("step"), "step", 1e15);
  const int layer = to_index(required("layer"), "layer", 0, kMaxLayer);
  const int top_k = to_index(required("topk"), "topk", 1, kMaxTopK);
  const JsonValue* block = member(json, {"block"});
  const JsonValue* mtp_idx = member(json, {"mtp_idx"});
  const bool mtp = block && to_text(*block, "block") == "mtp";
  const Place place{mtp, mtp && mtp_idx ? to_index(*mtp_idx, "mtp_idx", 0, kMaxLayer) : layer};
  if (const JsonValue* shape = member(json, {"logit_shape"})) {
    const auto extents = to_counts(*shape, "logit_shape", 2, "extents");
    if (extents[1] > kMaxImportedExperts) throw Unreadable("logit_shape: too many experts");
    experts_ = std::max(experts_, static_cast<int>(extents[1]));
  }
  std::vector<std::vector<int>> rows;
  for (const JsonValue row : list_of(required("top_indices"), "top_indices", 0, "tokens"))
    rows.push_back(row_of(row, static_cast<std::size_t>(top_k)));
  Chosen& chosen = steps_[step][place];
  top_k_ = std::max(top_k_, top_k);
  chosen.tokens += static_cast<std::int64_t>(rows.size());
  for (std::vector<int>& row : rows) {
    for (const int expert : row) {
      if (chosen.load.size() <= static_cast<std::size_t>(expert))
        chosen.load.resize(static_cast<std::size_t>(expert) + 1);
      ++chosen.load[static_cast<std::size_t>(expert)];
      experts_ = std::max(experts_, expert + 1);
    }
    std::sort(row.begin(), row.end());  // a row may name an expert twice
    row.erase(std::unique(row.begin(), row.end()), row.end());
    for (std::size_t i = 0; i < row.size(); ++i)
      for (std::size_t j = i; j < row.size(); ++j) ++chosen.together[{row[i], row[j]}];
  }
}

std::map<Place, int> Trace::layer_numbers() const {
  std::map<Place, int> numbers;
  for (const auto& [step, layers] : steps_)
    for (const auto& [place, chosen] : layers) numbers[place];
  int decoder = 0;
  for (auto& [place, number] : numbers)
    if (!place.mtp) number = place.layer, decoder = place.layer + 1;
  for (auto& [place, number] : numbers)
    if (place.mtp) number = decoder + place.layer;
  return numbers;
}

SpecialisationFrame Trace::together(const Chosen& chosen, int layer) const {
  const auto experts = static_cast<std::size_t>(experts_);
  SpecialisationFrame frame;
  frame.layer = layer;
  frame.experts = experts_;
  frame.together_EE.resize(experts * experts);
  for (const auto& [pair, tokens] : chosen.together) {
    const auto i = static_cast<std::size_t>(pair.first), j = static_cast<std::size_t>(pair.second);
    frame.together_EE[i * experts + j] = frame.together_EE[j * experts + i] = tokens;
  }
  return frame;
}

std::shared_ptr<History> Trace::build(RunInfo info, const ImportOptions& options) {
  const std::map<Place, int> numbers = layer_numbers();
  const auto experts = static_cast<std::size_t>(experts_);
  if (numbers.size() * std::max<std::size_t>(1, experts) > kMaxImportedLoads)
    throw std::runtime_error(info.source + ": " + std::to_string(numbers.size()) + " layers of " +
                             std::to_string(experts) + " experts are more than can be shown");
  for (const auto& [place, number] : numbers) info.moe_layers.push_back(number);
  info.n_layers = info.moe_layers.back() + 1;
  info.n_experts = experts_;
  info.top_k = top_k_;
  std::int64_t most = 0;
  for (const auto& [place, chosen] : steps_.begin()->second) most = std::max(most, chosen.tokens);
  info.tokens_per_step = most;
  const std::size_t table = experts * experts * sizeof(std::uint32_t) * numbers.size();
  const bool every_step = table * steps_.size() <= kMaxTogetherBytes;
  std::map<Place, Chosen> so_far;
  ImportedRun run(std::move(info), options);
  for (auto& [step, layers] : steps_) {
    TelemetryFrame frame;
    frame.step = step;
    frame.aux_loss = frame.z_loss = kNoValue;
    const bool last = step == steps_.rbegin()->first;
    for (auto& [place, chosen] : layers) {
      RouterFrame router;
      router.layer = numbers.at(place);
      router.tokens_per_expert = chosen.load;
      router.tokens_per_expert.resize(experts);
      frame.routers.push_back(std::move(router));
      Chosen& sum = so_far[place];
      for (const auto& [pair, tokens] : chosen.together) sum.together[pair] += tokens;
    }
    if ((every_step || last) && table <= kMaxTogetherBytes) {
      for (const auto& [place, sum] : so_far) frame.specialisation.push_back(together(sum, numbers.at(place)));
      so_far.clear();
    }
    run.add(std::move(frame));
  }
  return run.history();
}

std::vector<fs::path> trace_files(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file() && is_trace_name(entry.path().filename().string())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

bool is_trace_name(std::string_view file_name) {
  return file_name.starts_with("router_trace_rank") && file_name.ends_with(".jsonl");
}

bool begins_like_trace(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  return line.starts_with('{') && line.find("\"topk\"") != std::string_view::npos &&
         line.find("\"num_tokens\"") != std::string_view::npos;
}

Imported import_trace(const std::string& path, const ImportOptions& options) {
  Imported imported;
  Trace trace;
  double all = 1, before = 0;
  const std::vector<fs::path> files = trace_files(path);
  for (const fs::path& file : files) all += static_cast<double>(fs::file_size(file));
  for (const fs::path& name : files) {
    InputFile file(name.string());
    for (std::string line; file.read_line(line, kLongestLine);) {
      ++imported.lines;
      before += static_cast<double>(line.size() + 1);
      if (options.progress && imported.lines % 64 == 0 && !options.progress(before / all)) return {};
      try {
        if (line.size() > kLongestLine) throw Unreadable("longer than 256 MiB");
        if (!line.empty()) trace.read_line(line);
      } catch (const Unreadable& unreadable) {
        imported.bad.add(imported.lines, unreadable.what());
      }
    }
  }
  if (!trace.understood())
    throw std::runtime_error(path + ": holds no routing" +
                             (imported.bad.count() > 0 ? "; " + imported.bad.summary() : std::string()));
  RunInfo info;
  info.run = options.run;
  info.source = path;
  const fs::path folder = fs::is_directory(path) ? fs::path(path) : fs::absolute(path).parent_path();
  info.name = fs::is_directory(path) ? folder.filename().string() : fs::path(path).stem().string();
  if (info.name.empty()) info.name = folder.parent_path().filename().string();
  imported.runs.push_back(trace.build(std::move(info), options));
  if (options.progress) options.progress(1);
  return imported;
}

bool read_trace_bytes(std::string_view bytes, BadLines& bad) {
  Trace trace;
  for (std::int64_t number = 1; !bytes.empty(); ++number) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    try {
      trace.read_line(bytes.substr(0, end));
    } catch (const Unreadable& unreadable) {
      bad.add(number, unreadable.what());
    }
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  return trace.understood() && trace.build({}, {}) != nullptr;
}

}  // namespace moescope
