#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/files/folder_walk.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_readers.h"
#include "core/logs/runs/log_runs.h"

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

// True for tables that have one figure of a run each: "step,train_loss" of DeepSpeed's monitor, and downloads of
// TensorBoard, whose names have its run and tag.
bool are_figures(const std::vector<fs::path>& files) {
  std::set<std::string> runs, figures;
  for (const fs::path& file : files) {
    const std::string header = file.extension() == ".csv" ? in_lower_case(table_header(file.string())) : "";
    const std::string stem = file.stem().string();
    const std::size_t tag = header == "wall time,step,value" ? stem.find("-tag-") : stem.npos;
    if (tag == stem.npos && (!header.starts_with("step,") || std::ranges::count(header, ',') != 1)) return false;
    runs.insert(tag == stem.npos ? "" : stem.substr(0, tag));
    figures.insert(tag == stem.npos ? header : stem.substr(tag));
  }
  return files.size() > 1 && runs.size() == 1 && figures.size() == files.size();
}

using FramesOfRun = std::map<std::int64_t, TelemetryFrame>;

struct PartOfRun {
  std::string name;
  Imported imported;
  FramesOfRun frames;
};

PartOfRun read_part(const fs::path& file, const ImportOptions& options) {
  PartOfRun part{printable(file.filename().string()), {}, {}};
  ImportOptions part_options = options;
  part_options.routed = {};
  part_options.on_run = nullptr;
  part_options.on_marker = nullptr;
  part_options.progress = nullptr;
  part_options.most_runs = 1;
  part_options.on_frame = [&part](const std::shared_ptr<const TelemetryFrame>& frame) {
    part.frames.erase(part.frames.lower_bound(frame->step), part.frames.end());
    part.frames.emplace(frame->step, *frame);
  };
  const FileKind kind = file_kind(file.string(), options);
  if (!holds_runs(kind)) throw std::runtime_error(no_log_text(file.string(), kind));
  part.imported = import_log(file.string(), kind, part_options);
  if (part.imported.runs.size() != 1) refuse(file.string(), "holds several runs");
  const int layer = number_in_file_name(file.filename().string(), "layer");
  const bool is_of_one = part.imported.runs[0]->info().moe_layers == std::vector{0};
  if (layer >= 0 && layer <= kLastImportedLayer && is_of_one)
    for (auto& [step, frame] : part.frames)
      for (RouterFrame& router : frame.routers) router.layer = layer;
  const int step = number_in_file_name(file.filename().string(), "step");
  if (kind == FileKind::expert_counts && step >= 0 && part.frames.size() == 1) {  // which has none inside
    auto only = part.frames.extract(part.frames.begin());
    only.key() = only.mapped().step = step;
    part.frames.insert(std::move(only));
  }
  return part;
}

RunInfo info_of(const std::string& folder, const std::vector<PartOfRun>& parts) {
  RunInfo info = parts.front().imported.runs[0]->info();
  std::set<int> layers;
  for (const PartOfRun& part : parts)
    for (const auto& [step, frame] : part.frames)
      for (const RouterFrame& router : frame.routers)
        if (router.layer >= 0) layers.insert(router.layer);
  info.moe_layers.assign(layers.begin(), layers.end());
  if (!layers.empty()) info.n_layers = std::max(info.n_layers, *layers.rbegin() + 1);
  info.n_experts = 0;  // the loads of all ranks show it
  info.name = fs::absolute(folder).lexically_normal().filename().string();
  info.source = folder;
  return info;
}

// Gives the values of a step in one file to the run, as those of a rank.
void take_step(std::size_t rank, TelemetryFrame frame, std::vector<Marker> markers, RunBuilder& run) {
  LogRecord record;
  record.step = frame.step;
  record.markers = std::move(markers);
  record.add("rank", static_cast<double>(rank));
  for (RouterFrame& router : frame.routers) {
    if (router.tokens_per_expert.empty()) continue;
    NamedValue& loads = record.add("tokens_per_expert");
    loads.is_list = true;
    loads.layer = router.layer;
    loads.numbers.assign(router.tokens_per_expert.begin(), router.tokens_per_expert.end());
    router.tokens_per_expert.clear();
    for (const auto figure : kFiguresOfLoads) router.*figure = kNoValue;
  }
  record.own_frame = std::move(frame);
  record.has_own_rows = true;
  run.take(record);
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
  if (first == files.end()) return files.size() <= kMaxParts && are_figures(files) ? files : std::vector<fs::path>();
  std::vector<fs::path> parts = named_like(*first);
  const auto has_form = [&](const fs::path& file) { return file.extension() == first->extension(); };
  if (parts.size() < 2 || parts.size() > kMaxParts || std::ranges::count_if(files, has_form) != std::ssize(parts))
    return {};
  std::ranges::stable_sort(parts, {}, numbers_of_part);
  if (std::ranges::adjacent_find(parts, {}, numbers_of_part) != parts.end()) return {};  // of several runs
  try {
    const FileKind kind = file_kind(parts.front().string());
    const bool is_log = kind == FileKind::training_log || kind == FileKind::text_log || kind == FileKind::load_table ||
                        kind == FileKind::trainer_state || kind == FileKind::expert_counts;
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
  std::error_code none;
  if (const fs::path older = file.string() + ".1"; parts.empty() && fs::is_regular_file(older, none))
    return printable(older.filename().string()) + " beside it may have its earlier steps, and was not read";
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
  std::vector<AccountRow> unknown;
  for (const fs::path& file : files) {
    try {
      parts.push_back(read_part(file, options));
    } catch (const RefusedLog& refused) {  // its figure has no known name
      if (is_part(file)) throw;
      join_rows(refused.account.rows, unknown);
    }
    if (options.progress && !options.progress(parts.size() / static_cast<double>(files.size() + 1))) return {};
  }
  if (parts.empty()) refuse(folder, "none of its tables has a figure of a name that is known");
  LogRuns runs(folder, options, false, "line");
  RunBuilder& run = runs.run("");
  run.stated.info = info_of(folder, parts);
  std::set<std::int64_t> steps;
  for (const PartOfRun& part : parts)
    for (const auto& [step, frame] : part.frames) steps.insert(step);
  std::vector<Marker> markers = parts.front().imported.runs[0]->markers();
  std::erase_if(markers, [](const Marker& marker) { return marker.kind == kProgramMarker; });
  for (const std::int64_t step : steps)
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
      if (auto frame = parts[rank].frames.extract(step); !frame.empty())
        take_step(rank, std::move(frame.mapped()), std::exchange(markers, {}), run);
  run.show_steps();
  run.stated.info = {};  // so that the account says where the numbers come from
  if (const std::string question = run.question_of_ranks(); !question.empty())
    throw AmbiguousRouting(folder + ": " + question + "; if each has all experts, state the number of its loads");
  Imported imported = std::move(parts.front().imported);
  Imported whole = runs.finish(0);
  imported.runs = std::move(whole.runs);
  whole.account.program = imported.account.program;
  whole.account.rows = std::move(imported.account.rows);
  whole.account.left_out = std::move(imported.account.left_out);
  imported.account = std::move(whole.account);
  imported.remarks = {counted(std::ssize(parts), "file", "files") + " are read as one run: " + parts.front().name +
                      " to " + parts.back().name + std::string(run.loads_of_ranks())};
  join_rows(unknown, imported.account.rows);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    join_rows(parts[i].imported.account.rows, imported.account.rows);
    imported.lines += parts[i].imported.lines;
    if (const std::string bad = parts[i].imported.bad.summary(); !bad.empty())
      imported.remarks.push_back(parts[i].name + ": " + bad);
  }
  return imported;
}

}  // namespace moescope
