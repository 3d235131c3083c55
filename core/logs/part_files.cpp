#include "core/logs/part_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/files/folder_walk.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/dumps/expert_counts.h"
#include "core/logs/file_kind.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxParts = 4096;
constexpr std::uintmax_t kLargestStep = std::uintmax_t{4} << 20;  // bytes of a file of one step

using PartNumbers = std::array<int, 3>;  // rank, layer, step; -1: not in the name

PartNumbers numbers_of_part(const fs::path& file) {
  const std::string name = file.filename().string();
  return {number_in_file_name(name, "rank"), number_in_file_name(name, "layer"), number_in_file_name(name, "step")};
}

bool is_part(const fs::path& file) {
  return numbers_of_part(file) != PartNumbers{-1, -1, -1};
}

// Files of the folder that are named like this one, also the file itself.
std::vector<fs::path> named_like(const fs::path& file) {
  std::vector<fs::path> parts = files_in(fs::absolute(file).parent_path(), [](std::string_view) { return true; });
  const std::string pattern = name_pattern(file.filename().string());
  std::erase_if(parts, [&](const fs::path& part) { return name_pattern(part.filename().string()) != pattern; });
  return parts;
}

using FramesOfRun = std::map<std::int64_t, TelemetryFrame>;

struct PartOfRun {
  Imported imported;
  FramesOfRun frames;
};

PartOfRun read_part(const fs::path& file, const ImportOptions& options) {
  PartOfRun part;
  ImportOptions of_part = options;
  of_part.routed = {};
  of_part.on_run = nullptr;
  of_part.on_marker = nullptr;
  of_part.progress = nullptr;
  of_part.most_runs = 1;
  of_part.on_frame = [&part](const std::shared_ptr<const TelemetryFrame>& frame) {
    part.frames.erase(part.frames.lower_bound(frame->step), part.frames.end());
    part.frames.emplace(frame->step, *frame);
  };
  const FileKind kind = file_kind(file.string(), options);
  if (!holds_runs(kind)) throw std::runtime_error(no_log_text(file.string(), kind));
  part.imported = import_log(file.string(), kind, of_part);
  if (part.imported.runs.size() != 1) throw std::runtime_error(file.string() + ": holds several runs");
  const int layer = number_in_file_name(file.filename().string(), "layer");
  const bool is_of_one = part.imported.runs[0]->info().moe_layers == std::vector{0};
  if (layer >= 0 && layer <= kLastImportedLayer && is_of_one)
    for (auto& [step, frame] : part.frames)
      for (RouterFrame& router : frame.routers) router.layer = layer;
  return part;
}

// How the loads of a layer in two files compare.
struct Comparison {
  bool have_loads = false, are_equal = true, have_equal_sums = true;
};

void compare(const FramesOfRun& frames, const FramesOfRun& more, Comparison& result) {
  for (const auto& [step, frame] : more)
    for (const RouterFrame& router : frame.routers) {
      const auto found = frames.find(step);
      const RouterFrame* other = found == frames.end() ? nullptr : find_router(&found->second, router.layer);
      if (!other || router.tokens_per_expert.empty() || other->tokens_per_expert.empty()) continue;
      result.have_loads = true;
      result.are_equal = result.are_equal && router.tokens_per_expert == other->tokens_per_expert;
      result.have_equal_sums =
          result.have_equal_sums && sum_of(router.tokens_per_expert) == sum_of(other->tokens_per_expert);
    }
}

// Makes the lists of experts of one rank those of all ranks.
void spread_experts(FramesOfRun& frames, std::size_t rank, std::size_t ranks) {
  for (auto& [step, frame] : frames)
    for (RouterFrame& router : frame.routers) {
      std::vector<std::uint32_t> whole(router.tokens_per_expert.size() * ranks);
      std::ranges::copy(router.tokens_per_expert, whole.begin() + std::ssize(router.tokens_per_expert) * rank);
      router.tokens_per_expert = std::move(whole);
      router.expert_bias.clear();
    }
}

RunInfo info_of(const std::string& folder, const std::vector<PartOfRun>& parts, const FramesOfRun& frames) {
  RunInfo info = parts.front().imported.runs[0]->info();
  std::set<int> layers;
  for (const auto& [step, frame] : frames)
    for (const RouterFrame& router : frame.routers) {
      if (router.layer >= 0) layers.insert(router.layer);
      info.n_experts = std::max(info.n_experts, to_int(router.tokens_per_expert.size()));
    }
  info.moe_layers.assign(layers.begin(), layers.end());
  if (!layers.empty()) info.n_layers = std::max(info.n_layers, *layers.rbegin() + 1);
  info.name = fs::absolute(folder).lexically_normal().filename().string();
  info.source = folder;
  return info;
}

// Adds the values of the rows of a further file.
void join_rows(const std::vector<AccountRow>& more, std::vector<AccountRow>& rows) {
  for (const AccountRow& row : more) {
    const auto found = std::ranges::find(rows, row.name, &AccountRow::name);
    if (found == rows.end()) {
      rows.push_back(row);
      continue;
    }
    found->values += row.values;
    if (!(found->lowest <= row.lowest)) found->lowest = row.lowest;
    if (!(found->highest >= row.highest)) found->highest = row.highest;
    found->first_step = std::min(found->first_step, row.first_step);
    found->last_step = std::max(found->last_step, row.last_step);
  }
}

}  // namespace

int number_in_file_name(std::string_view name, const char* word) {
  constexpr std::int64_t kMaxPartNumber = 1 << 20;
  const std::size_t at = spelled_alike(name).find(word);
  if (at == std::string::npos) return -1;
  const std::string_view text = name.substr(std::min(name.find_first_of("0123456789", at), name.size()));
  std::int64_t number = -1;
  const bool is_number = read_number(text.substr(0, text.find_first_not_of("0123456789")), number);
  return is_number && number <= kMaxPartNumber ? to_int(number) : -1;
}

std::vector<fs::path> part_files(const fs::path& folder) {
  const std::vector<fs::path> files = files_in(folder, [](std::string_view) { return true; });
  const auto first = std::ranges::find_if(files, is_part);
  if (first == files.end()) return {};
  std::vector<fs::path> parts = named_like(*first);
  const auto has_form = [&](const fs::path& file) { return file.extension() == first->extension(); };
  if (parts.size() < 2 || parts.size() > kMaxParts || std::ranges::count_if(files, has_form) != std::ssize(parts))
    return {};
  std::ranges::stable_sort(parts, {}, numbers_of_part);
  if (std::ranges::adjacent_find(parts, {}, numbers_of_part) != parts.end()) return {};  // of several runs
  try {
    const FileKind kind = file_kind(parts.front().string());
    const bool is_log = kind == FileKind::training_log || kind == FileKind::text_log || kind == FileKind::load_table ||
                        kind == FileKind::trainer_state;
    const bool is_named_step = numbers_of_part(*first).back() >= 0;
    const bool is_step =
        is_log && is_named_step && fs::file_size(*first) <= kLargestStep && read_part(*first, {}).frames.size() == 1;
    return is_log && is_step == is_named_step ? parts : std::vector<fs::path>();
  } catch (const std::runtime_error&) {  // unreadable
    return {};
  }
}

std::string parts_beside(const fs::path& file) {
  std::vector<fs::path> parts = is_part(file) ? named_like(file) : std::vector<fs::path>();
  std::erase_if(parts, [&](const fs::path& part) { return numbers_of_part(part) == numbers_of_part(file); });
  if (parts.empty()) return {};
  return counted(std::ssize(parts), "file", "files") +
         (numbers_of_part(file).back() < 0 ? " beside it may have other ranks or layers, and "
                                           : " beside it may have other steps, and ") +
         (parts.size() == 1 ? "was" : "were") + " not read: " + printable(parts.front().filename().string()) +
         (parts.size() == 1 ? "" : ", ...") + "; open the folder to read all";
}

Imported import_part_files(const std::string& folder, const ImportOptions& options) {
  const std::vector<fs::path> files = part_files(folder);
  std::vector<PartOfRun> parts;
  FramesOfRun frames;
  for (const fs::path& file : files) {
    parts.push_back(read_part(file, options));
    if (options.progress && !options.progress(parts.size() / static_cast<double>(files.size() + 1))) return {};
  }
  const int listed = parts.front().imported.runs[0]->info().n_experts, stated = options.routed.experts;
  const int of_all = listed * to_int(files.size());
  Comparison loads;
  for (std::size_t i = 1; i < parts.size(); ++i) compare(parts.front().frames, parts[i].frames, loads);
  if (loads.have_loads && !loads.have_equal_sums && stated == 0)
    throw AmbiguousRouting(
        fmt::format("{}: the files of the ranks have other numbers of tokens: if their {} loads are those of all "
                    "experts, state --experts {}, so that they are added; if each rank has other experts, --experts {}",
                    folder, listed, listed, of_all));
  const bool have_other_experts = loads.have_loads && stated == of_all,
             are_added = loads.have_loads && !loads.are_equal;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (have_other_experts) spread_experts(parts[i].frames, i, parts.size());
    for (auto& [step, frame] : std::exchange(parts[i].frames, {})) {
      const auto [found, is_new] = frames.try_emplace(step);
      if (is_new)
        found->second = std::move(frame);
      else
        join_frames(found->second, std::move(frame), are_added || have_other_experts);
    }
  }
  ImportedRun run(info_of(folder, parts, frames), options);
  for (const Marker& marker : parts.front().imported.runs[0]->markers())
    if (marker.kind != kProgramMarker) run.add(marker);
  for (auto& [step, frame] : frames) run.add(std::move(frame));
  Imported imported = std::move(parts.front().imported);
  imported.runs = {run.history()};
  ImportAccount found = run.found();
  found.program = imported.account.program;
  found.rows = std::move(imported.account.rows);
  found.left_out = std::move(imported.account.left_out);
  imported.account = std::move(found);
  std::string of_loads;
  if (loads.have_loads)
    of_loads = are_added ? "; their loads are added" : "; all have the same loads, which are not added";
  if (have_other_experts) of_loads = "; each has other experts";
  imported.remarks = {counted(std::ssize(files), "file", "files") +
                      " are read as one run: " + printable(files.front().filename().string()) + " to " +
                      printable(files.back().filename().string()) + of_loads};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    join_rows(parts[i].imported.account.rows, imported.account.rows);
    imported.lines += parts[i].imported.lines;
    if (const std::string bad = parts[i].imported.bad.summary(); !bad.empty())
      imported.remarks.push_back(printable(files[i].filename().string()) + ": " + bad);
  }
  return imported;
}

}  // namespace moescope
