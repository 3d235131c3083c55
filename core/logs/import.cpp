#include "core/logs/import.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/files/input_file.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/frame/describe.h"
#include "core/frame/figures.h"
#include "core/frame/router_stats.h"
#include "core/logs/standard_input.h"
#include "core/recording/history/step_axis.h"

namespace moescope {

namespace {

constexpr std::int64_t kMaxWindowCounts = std::int64_t{1} << 23;
constexpr std::size_t kLongestReason = 300;
constexpr std::size_t kRecentFrames = 8;  // newest steps to which late values can be added
constexpr std::size_t kListedNames = 8, kLongestListedName = 60;

// Replaces the list unless `more` is empty.
template <class Value>
void join_list(std::vector<Value>& list, std::vector<Value>&& more) {
  if (!more.empty()) list = std::move(more);
}

// Replaces the rows of the layers in `more`, so that a repeated line adds no rows.
template <class Row>
void join_rows(std::vector<Row>& rows, std::vector<Row>&& more) {
  if (more.empty()) return;
  std::set<int> layers;
  for (const Row& row : more) layers.insert(row.layer);
  std::erase_if(rows, [&](const Row& row) { return layers.contains(row.layer); });
  std::move(more.begin(), more.end(), std::back_inserter(rows));
}

// The arrays of a router in the order of its description.
struct RouterArrays {
  std::vector<std::vector<float>*> floats;
  std::vector<std::vector<std::uint32_t>*> counts;
  void array(std::vector<float>& values, const Column&, const Extent&) { floats.push_back(&values); }
  void array(std::vector<std::uint32_t>& values, const Column&, const Extent&) { counts.push_back(&values); }
  void bins(std::vector<std::uint32_t>& values, const Column&) { counts.push_back(&values); }
  void layer(int&, const LayerColumn&) {}
  void figures(RouterFrame&, const auto&) {}
  void nested(VolumeFrame&, const char*) {}
};

// Adds the loads of a router to those of the other, whose derived figures are then to be computed again.
void add_loads(const RouterFrame& router, RouterFrame& more) {
  if (router.tokens_per_expert.size() != more.tokens_per_expert.size()) return;
  for (std::size_t e = 0; e < more.tokens_per_expert.size(); ++e)
    more.tokens_per_expert[e] += router.tokens_per_expert[e];
}

void join_routers(RouterFrame& router, RouterFrame&& more, bool is_part) {
  if (is_part && !more.tokens_per_expert.empty()) {
    add_loads(router, more);
    for (const auto figure : kFiguresOfLoads) router.*figure = more.*figure = kNoValue;
  }
  for (const auto& figure : kRouterFigures)
    if (!is_missing(more.*figure.member)) router.*figure.member = more.*figure.member;
  RouterArrays arrays, more_arrays;
  describe(router, arrays);
  describe(more, more_arrays);
  for (std::size_t i = 0; i < arrays.floats.size(); ++i)
    join_list(*arrays.floats[i], std::move(*more_arrays.floats[i]));
  for (std::size_t i = 0; i < arrays.counts.size(); ++i)
    join_list(*arrays.counts[i], std::move(*more_arrays.counts[i]));
  if (more.volume.ranks > 0) router.volume = std::move(more.volume);
}

std::string listed_names(const std::set<std::string>& names) {
  return first_names(std::vector(names.begin(), names.end()), kListedNames, kLongestListedName);
}

// Sets a number of the run as the user states it. Throws std::runtime_error if the log has another one.
void state(int& log_number, int stated, const RunInfo& info, const char* option, const char* what) {
  if (stated == 0) return;
  if (log_number != 0 && log_number != stated)
    refuse(info.source, fmt::format("{} {}, but the log has {} {}", option, stated, log_number, what));
  log_number = stated;
}

// Each sum is of as many experts, of at least two.
SumsInLoad sums_in(std::span<const std::uint32_t> counts) {
  const std::int64_t total = sum_of(counts);
  if (total == 0 || counts.size() < 3) return {};
  if (2 * std::int64_t{counts[0]} == total) return {1, true};
  std::int64_t at_end = 0;
  std::size_t sums = 0;
  while (2 * at_end < total) at_end += counts[counts.size() - ++sums];
  const std::size_t experts = counts.size() - sums;
  if (2 * at_end != total || experts < 2 * sums || experts % sums != 0) return {};
  for (std::size_t sum = 0; sum < sums; ++sum)
    if (sum_of(counts.subspan(sum * (experts / sums), experts / sums)) != counts[experts + sum]) return {};
  return {sums, false};
}

// Throws Unreadable if a router has loads of more or fewer experts than the run: they would make a damaged recording.
void require_experts(const TelemetryFrame& frame, const RunInfo& info) {
  for (const RouterFrame& router : frame.routers) {
    const std::size_t loads = router.tokens_per_expert.size(), experts = info.n_experts;
    if (loads > 0 && loads != experts)
      throw Unreadable(fmt::format("tokens_per_expert: {} experts, not {}", loads, experts));
  }
}

}  // namespace

void join_frames(TelemetryFrame& frame, TelemetryFrame&& more, bool is_part) {
  for (float TelemetryFrame::*loss : {&TelemetryFrame::ce_loss, &TelemetryFrame::val_loss})
    if (more.*loss == 0 && !is_missing(frame.*loss)) more.*loss = kNoValue;
  for (const auto& figure : kFrameFigures)
    if (!is_missing(more.*figure.member)) frame.*figure.member = more.*figure.member;
  for (std::size_t phase = 0; phase < more.phase_ms.size(); ++phase)
    if (!is_missing(more.phase_ms[phase])) frame.phase_ms[phase] = more.phase_ms[phase];
  frame.wall_s = std::max(frame.wall_s, more.wall_s);
  frame.tokens = std::max(frame.tokens, more.tokens);
  if (frame.routers.empty()) frame.routers = std::exchange(more.routers, {});
  for (RouterFrame& router : more.routers) {
    const auto place = std::ranges::lower_bound(frame.routers, router.layer, {}, &RouterFrame::layer);
    if (place != frame.routers.end() && place->layer == router.layer)
      join_routers(*place, std::move(router), is_part);
    else
      frame.routers.insert(place, std::move(router));
  }
  join_rows(frame.quants, std::move(more.quants));
  join_rows(frame.flips, std::move(more.flips));
  join_rows(frame.gradients, std::move(more.gradients));
  join_rows(frame.rounding_flips, std::move(more.rounding_flips));
  join_rows(frame.router_roundings, std::move(more.router_roundings));
  join_rows(frame.specialisation, std::move(more.specialisation));
  join_list(frame.texts, std::move(more.texts));
  if (more.wire.ranks > 0) frame.wire = std::move(more.wire);
}

void BadLines::add(std::int64_t number, std::string reason, bool in_part) {
  ++count_;
  in_part_ += in_part;
  if (first_.size() >= kKept) return;
  if (reason.size() > kLongestReason) reason.resize(kLongestReason);
  first_.push_back({number, std::move(reason), in_part});
}

// Returns "3 lines could not be read, the first: line 7: WHY"; empty if `count` is 0.
std::string BadLines::counted(std::int64_t count, const char* what, bool in_part) const {
  if (count == 0) return {};
  const std::string text = fmt::format("{} {}{}{}", count, unit_, count == 1 ? "" : "s", what);
  const auto first = std::ranges::find(first_, in_part, &BadLine::in_part);
  return first == first_.end() ? text
                               : fmt::format("{}, the first: {} {}: {}", text, unit_, first->number, first->reason);
}

std::string BadLines::summary() const {
  const std::string none = counted(count_ - in_part_, " could not be read", false);
  const std::string part = counted(in_part_, " could be read in part only", true);
  return none + (none.empty() || part.empty() ? "" : "; ") + part;
}

std::string BadLines::also() const {
  return count_ == 0 ? "" : "; " + summary();
}

std::string BadLines::first_reason() const {
  return first_.empty() ? "" : fmt::format("; {} {}: {}", unit_, first_[0].number, first_[0].reason);
}

std::string BadLines::text() const {
  std::string out;
  for (const BadLine& bad : first_)
    out += fmt::format("{} {}: {}{}", unit_, bad.number, bad.reason,
                       bad.in_part ? " (the other values of the line were read)\n" : "\n");
  const auto more = count_ - std::ssize(first_);
  if (more > 0) out += fmt::format("and {} more\n", more);
  return out;
}

void check_run_size(const RunInfo& info, std::size_t steps, std::size_t entries, const std::string& largest) {
  // A run may have kLoadsOfAnyRun loads, or kLoadsOfAnEntry loads per entry of its file if these are more: in a trace
  // of single tokens of a large model, a row names one of several thousand experts.
  constexpr std::size_t kLoadsOfAnEntry = 8192, kLoadsOfAnyRun = std::size_t{1} << 26;
  const std::size_t loads = info.moe_layers.size() * info.n_experts;
  const std::string all =
      fmt::format("{}: {} layers of {} experts", info.source, info.moe_layers.size(), info.n_experts);
  if (loads > kMaxImportedLoads) throw std::runtime_error(all + " are more than can be shown");
  if (steps * loads <= kLoadsOfAnyRun || steps * loads / kLoadsOfAnEntry <= entries) return;
  throw std::runtime_error(
      fmt::format("{} in {} steps, but only {} entries: is a number wrong? {}", all, steps, entries, largest));
}

std::vector<std::uint32_t> counts_of_ratios(std::span<const float> ratios) {
  constexpr double kMaxCounts = 4294967295.0, kRounding = 0.01;
  double sum = 0;
  for (const float ratio : ratios) {
    if (!(ratio >= 0)) throw Unreadable(fmt::format("{} is not a share of the load", ratio));
    sum += ratio;
  }
  // Loads divided by the fair share have the mean 1 up to rounding, and keep their digits.
  const double mean = sum / ratios.size();
  if (!(mean > 0)) throw Unreadable("the shares of all experts are 0");
  const double factor = std::abs(mean - 1) <= kRounding ? kCountsOfFairShare : kCountsOfFairShare / mean;
  std::vector<std::uint32_t> counts;
  for (const float ratio : ratios)
    counts.push_back(static_cast<std::uint32_t>(std::min(kMaxCounts, std::round(factor * ratio))));
  return counts;
}

std::int64_t sum_of(std::span<const std::uint32_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::string first_names(std::span<const std::string> names, std::size_t max_count, std::size_t longest) {
  const auto shown = [&](const std::string& name) { return printable(name.substr(0, longest)); };
  return joined(names.first(std::min(max_count, names.size())), ", ", shown) +
         (names.size() > max_count ? ", ..." : "");
}

std::string not_shown_text(const std::set<std::string>& names) {
  return "not shown: " + listed_names(names);
}

std::string layer_question(const std::string& name) {
  return fmt::format(
      "is {} the layer? State means = \"layer\" for it in a mapping file, --tags FILE.toml or moescope-tags.toml "
      "beside the log; if it numbers microbatches, whose loads are added, means = \"part\", else \"ignored\"",
      name);
}

std::string no_known_names(const std::set<std::string>& names) {
  if (names.empty()) return "its steps have no values";
  return "none of its names is known: " + listed_names(names) +
         ". A mapping file, --tags FILE.toml or moescope-tags.toml beside the log, defines what names mean";
}

void append_marker(History& history, const ImportOptions& options, const Marker& marker) {
  history.append(marker);
  if (options.on_marker) options.on_marker(marker);
}

ImportedRun::ImportedRun(RunInfo info, const ImportOptions& options) : options_(&options) {
  if (to_int(info.moe_layers.size()) != options.routed.layers)
    state(info.n_layers, options.routed.layers, info, "--layers", "layers");
  if (const int stated = options.routed.experts; stated > 0 && info.n_experts > stated) {
    stated_sums_ = info.n_experts - stated;
    info.n_experts = stated;
  }
  state(info.n_experts, options.routed.experts, info, "--experts", "experts");
  state(info.top_k, options.routed.top_k, info, "--top-k", "experts for each token");
  info.name = printable(info.name);  // so that it takes one line
  const auto stem_of = [](const std::string& path) { return std::filesystem::path(path).stem().string(); };
  const bool is_named_after_file = info.name == stem_of(info.source);
  info.source = named_standard_input(std::move(info.source));
  if (is_named_after_file) info.name = stem_of(info.source);
  if (info.window <= 0) info.window = kImportWindow;
  // The window of every layer keeps its counts, so a file with a window of 100,000 steps must not fill the memory.
  const std::int64_t loads = std::max<std::int64_t>(1, std::ssize(info.moe_layers) * std::int64_t{info.n_experts});
  info.window = to_int(std::clamp<std::int64_t>(kMaxWindowCounts / loads, 1, info.window));
  history_ = std::make_shared<History>(std::move(info), options.array_budget_bytes);
  if (options.on_run) options.on_run(history_->info());
}

// Throws std::runtime_error if the loads that the user does not count as experts are no sums of the others.
void ImportedRun::drop_sums(TelemetryFrame& frame) const {
  if (stated_sums_ == 0) return;
  const std::size_t listed = listed_experts();
  for (RouterFrame& router : frame.routers) {
    std::vector<std::uint32_t>& counts = router.tokens_per_expert;
    if (counts.size() != listed && router.expert_bias.size() != listed) continue;
    const SumsInLoad sums = sums_in(counts);
    if (counts.size() == listed && sums.sums != stated_sums_ && sum_of(counts) > 0)
      refuse(info().source,
             fmt::format("--experts {}, but the log has loads of {} experts, and none of them are sums of the others",
                         info().n_experts, listed));
    const std::ptrdiff_t first = sums.are_first ? 0 : info().n_experts;
    const auto drop = [&](auto& list) {
      if (list.size() == listed)
        list.erase(list.begin() + first, list.begin() + first + std::ssize(list) - info().n_experts);
    };
    drop(counts);
    drop(router.expert_bias);
  }
}

void ImportedRun::judge(RouterFrame& router, std::int64_t positions) {
  const auto& counts = router.tokens_per_expert;
  const int steps = info().window;
  LoadWindow& window = windows_.try_emplace(router.layer, to_int(counts.size()), steps).first->second;
  const std::vector<std::uint32_t> not_recorded(positions > 1 ? counts.size() : 0);
  if (positions >= steps)
    window = LoadWindow(to_int(counts.size()), steps);
  else
    for (std::int64_t i = 1; i < positions; ++i) window.push(not_recorded);
  window.push(counts);
  fill_derived_figures(router, window);
  const bool are_ratios = router.padding_fraction == kNoRows;
  if (are_ratios) router.padding_fraction = kNoValue;
  if (loads_ == 0 || sums_.sums > 0) {
    const SumsInLoad found_sums = sums_in(counts);
    sums_ = loads_ == 0 || found_sums == sums_ ? found_sums : SumsInLoad();
  }
  ++loads_;
  odd_loads_ += info().top_k > 1 && !are_ratios && sum_of(counts) % info().top_k != 0;
}

std::string ImportedRun::question_of_experts(int stated) const {
  const int experts = info().n_experts;
  if (stated > 0 && stated != experts)
    return fmt::format("the log states {} experts, but has loads of {}", stated, experts);
  if (sums_.sums == 0) return {};
  const bool is_one = sums_.sums == 1;
  return std::string("the ") + (sums_.are_first ? "first" : "last") +
         (is_one ? std::string() : fmt::format(" {}", sums_.sums)) + " of the " + std::to_string(experts) +
         " loads of a layer " + (is_one ? "is the sum" : "are sums") + " of the others: are there " +
         std::to_string(experts - to_int(sums_.sums)) + " experts?";
}

std::string ImportedRun::question_of_top_k() const {
  const RunInfo& run = info();
  if (run.n_experts > 0 && run.top_k > run.n_experts) return fmt::format("there are only {} experts", run.n_experts);
  if (odd_loads_ == 0) return {};
  return fmt::format("the sums of {} of {} are no multiple of it: were tokens dropped?", odd_loads_,
                     counted(loads_, "load", "loads"));
}

TelemetryFrame ImportedRun::completed(TelemetryFrame frame) const {
  frame.run = info().run;
  if (frame.tokens == 0) frame.tokens = info().tokens_per_step * (frame.step + 1);
  return frame;
}

void ImportedRun::publish(std::shared_ptr<const TelemetryFrame> frame) {
  history_->append(frame);
  if (options_->on_frame) options_->on_frame(frame);
  if (recent_.size() == kRecentFrames) recent_.pop_front();
  recent_.push_back(std::move(frame));
}

void ImportedRun::add(TelemetryFrame frame) {
  drop_sums(frame);
  require_experts(frame, info());
  drop_placeholders(frame);
  if (frame.step <= last_step_) drop_from(frame.step);
  const std::int64_t positions = std::min(frame.step - last_step_, kLongestGap);  // as in findings (step_axis.h)
  for (RouterFrame& router : frame.routers)
    if (!router.tokens_per_expert.empty()) judge(router, positions);
  last_step_ = frame.step;
  kept_steps_.push_back(frame.step);
  ++steps_;
  publish(std::make_shared<const TelemetryFrame>(completed(std::move(frame))));
}

bool ImportedRun::join(TelemetryFrame more, bool is_part) {
  drop_sums(more);
  require_experts(more, info());
  drop_placeholders(more);
  const auto found = std::ranges::lower_bound(recent_, more.step, {}, [](const auto& frame) { return frame->step; });
  const bool too_late = found == recent_.begin() && kept_steps_.size() > recent_.size();
  const bool is_there = found != recent_.end() && (*found)->step == more.step;
  if (too_late && !is_there) return false;
  for (RouterFrame& router : more.routers)
    if (!router.tokens_per_expert.empty()) judge(router, 0);
  std::vector<std::shared_ptr<const TelemetryFrame>> after(found + (is_there ? 1 : 0), recent_.end());
  TelemetryFrame whole;
  if (is_there) {
    whole = **found;
    std::set<int> unpadded_layers;  // layers whose loads have no padding
    for (const RouterFrame& router : whole.routers)
      if (!router.tokens_per_expert.empty() && is_missing(router.padding_fraction))
        unpadded_layers.insert(router.layer);
    join_frames(whole, std::move(more), is_part);
    for (RouterFrame& router : whole.routers) {
      if (const auto window = windows_.find(router.layer); is_part && window != windows_.end())
        fill_derived_figures(router, window->second);
      if (unpadded_layers.contains(router.layer)) router.padding_fraction = kNoValue;
    }
  } else {
    whole = completed(std::move(more));
    kept_steps_.insert(std::ranges::lower_bound(kept_steps_, whole.step), whole.step);
    ++steps_;
  }
  recent_.erase(found, recent_.end());
  publish(std::make_shared<const TelemetryFrame>(std::move(whole)));
  for (auto& frame : after) publish(std::move(frame));
  return true;
}

std::size_t ImportedRun::drop_from(std::int64_t step) {
  const auto first = std::ranges::lower_bound(kept_steps_, step);
  const auto dropped = kept_steps_.end() - first;
  if (dropped == 0) return 0;
  kept_steps_.erase(first, kept_steps_.end());
  std::erase_if(recent_, [&](const auto& frame) { return frame->step >= step; });
  windows_.clear();
  last_step_ = kept_steps_.empty() ? -1 : kept_steps_.back();
  history_->forget_from(step);
  return dropped;
}

ImportAccount numbers_of(const History& history, const RunInfo& stated, const RoutedShape& shape) {
  const RunInfo& run = history.info();
  const StepRange steps = history.steps();
  const auto number = [](std::int64_t value, std::int64_t log_value, std::int64_t user_value) {
    if (value <= 0) return FoundNumber{};
    const char* source = log_value == value ? "stated in the log" : "from the values of the log";
    if (user_value == value) source = "stated by you";
    return FoundNumber{std::to_string(value), source};
  };
  ImportAccount account;
  account.path = run.source;
  account.steps = {steps_in_words(steps.first, steps.last) + ", of which " + grouped(history.count()) +
                       (history.count() == 1 ? " is logged" : " are logged"),
                   {}};
  account.layers = number(std::ssize(run.moe_layers), std::ssize(stated.moe_layers), shape.layers);
  account.experts = number(run.n_experts, stated.n_experts, shape.experts);
  account.top_k = number(run.top_k, stated.top_k, shape.top_k);
  if (run.top_k == 0 && run.n_experts > 0) account.top_k.source = "but needed to judge whether layers have collapsed";
  account.tokens_per_step = number(run.tokens_per_step, stated.tokens_per_step, 0);
  return account;
}

ImportAccount ImportedRun::found(const RunInfo& stated) const {
  ImportAccount account = numbers_of(*history_, stated, options_->routed);
  account.experts.question = question_of_experts(stated.n_experts);
  account.top_k.question = question_of_top_k();
  for (const std::string& remark : remarks()) account.left_out.push_back({"losses of -1", remark});
  return account;
}

std::vector<std::string> ImportedRun::remarks() const {
  if (no_losses_ == 0) return {};
  return {counted(no_losses_, "loss of -1 is", "losses of -1 are") +
          " not shown: a rank without the last pipeline stage prints -1 where it has no loss"};
}

void ImportedRun::drop_placeholders(TelemetryFrame& frame) {
  for (float* loss : {&frame.ce_loss, &frame.val_loss}) {
    if (*loss != -1) continue;
    *loss = kNoValue;
    ++no_losses_;
  }
}

bool ImportedRun::has(std::int64_t step) const {
  return std::ranges::binary_search(kept_steps_, step);
}

void ImportedRun::add(Marker marker) {
  marker.run = info().run;
  if (options_->on_marker) options_->on_marker(marker);
  history_->append(std::move(marker));
}

bool take_lines(const std::vector<std::filesystem::path>& files, std::size_t longest, const TakeLine& take,
                const ImportOptions& options, Imported& imported) {
  constexpr std::uint64_t kBytesBetweenReports = 1 << 18;
  std::uint64_t all = 1, before = 0, reported = 0;
  for (const auto& file : files) all += std::filesystem::file_size(file);
  for (const auto& name : files) {
    InputFile file(name.string());
    for (std::string line; file.read_line(line, longest);) {
      if (options.growing && !file.line_had_end()) break;
      ++imported.lines;
      before += line.size() + 1;
      if (options.progress && before - reported >= kBytesBetweenReports) {
        reported = before;
        if (!options.progress(before / static_cast<double>(all))) return false;
      }
      if (line.empty()) continue;
      try {
        if (line.size() > longest) throw Unreadable(fmt::format("longer than {} bytes", longest));
        take(line);
      } catch (const Unreadable& unreadable) {
        imported.bad.add(imported.lines, unreadable.what());
      }
    }
  }
  return true;
}

}  // namespace moescope
