// Shows the steps of a run: its shape, the frame of each step, and the loads that ranks and microbatches log.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/files/text/json_text.h"
#include "core/frame/figures.h"
#include "core/frame/router_stats.h"
#include "core/logs/runs/run_builder.h"
#include "core/recording/history/settings_track.h"

namespace moescope {

namespace {

constexpr std::string_view kAddedLoads = "; their loads are added";
constexpr std::size_t kStepsToTokens = 4;  // of which two give the tokens of a step
constexpr std::int64_t kLoadsToAsk = 8;    // of a layer, or of all, which show that they may be other loads

bool is_complete(const std::vector<double>& values, std::size_t experts) {
  return experts > 0 && values.size() == experts &&
         std::ranges::none_of(values, [](double v) { return std::isnan(v); });
}

// Removes the figures over all layers that those of the layers give.
void drop_figures_of_layers(TelemetryFrame& frame) {
  if (frame.routers.empty() || frame.routers.front().layer >= 0 || frame.routers.size() == 1) return;
  RouterFrame& whole = frame.routers.front();
  const auto layers = std::span(frame.routers).subspan(1);
  const bool has_loads = std::ranges::any_of(layers, [](const auto& r) { return !r.tokens_per_expert.empty(); });
  bool is_empty = true;
  for (const auto& figure : kRouterFigures) {
    const bool is_derived = std::ranges::find(kFiguresOfLoads, figure.member) != kFiguresOfLoads.end();
    if ((has_loads && is_derived) ||
        std::ranges::any_of(layers, [&](const auto& r) { return !is_missing(r.*figure.member); }))
      whole.*figure.member = kNoValue;
    is_empty = is_empty && is_missing(whole.*figure.member);
  }
  if (is_empty) frame.routers.erase(frame.routers.begin());
}

// Computes the losses of a step that is given layer by layer: each is the sum over the layers.
void sum_up(TelemetryFrame& frame) {
  for (const auto& [figure, sum] :
       {std::pair{&RouterFrame::aux_loss, &frame.aux_loss}, std::pair{&RouterFrame::z_loss, &frame.z_loss}}) {
    if (!is_missing(*sum)) continue;
    for (const RouterFrame& router : frame.routers)
      if (!is_missing(router.*figure)) *sum = is_missing(*sum) ? router.*figure : *sum + router.*figure;
  }
}

}  // namespace

std::string place_text(std::int64_t step, int layer) {
  return fmt::format("step {}, layer {}", step, layer);
}

void Gaps::add(std::int64_t step, int layer, const std::string& reason) {
  if (count++ == 0) first = place_text(step, layer) + ": " + reason;
}

std::string Gaps::text() const {
  return count > 1 ? fmt::format("{} (and {} more such places)", first, count - 1) : first;
}

RouterFrame& RunBuilder::router_at(std::vector<RouterFrame>& routers, int layer) {
  const auto place = std::ranges::lower_bound(routers, layer, {}, &RouterFrame::layer);
  if (place != routers.end() && place->layer == layer) return *place;
  const auto added = routers.insert(place, RouterFrame());
  added->layer = layer;
  return *added;
}

void RunBuilder::check_layer(int layer) const {
  if (imported_ && !std::ranges::binary_search(imported_->info().moe_layers, layer))
    throw Unreadable(fmt::format("layer {} is not among the MoE layers of the first step", layer));
}

RunInfo RunBuilder::info() const {
  RunInfo info = imported_ ? imported_->info() : stated.info;
  if (imported_) info.n_experts = imported_->listed_experts();
  if (list_size_ > 0) info.n_experts = to_int(list_size_);
  return info;
}

RunInfo RunBuilder::info_of_steps() const {
  RunInfo info = stated.info;
  std::set<int> layers;
  std::size_t list_experts = list_size_, single_experts = 0;
  for (const auto& [number, step] : open_) {
    for (const RouterFrame& router : step.frame.routers) {
      if (router.layer < 0) continue;
      layers.insert(router.layer);
      list_experts = std::max({list_experts, router.tokens_per_expert.size(), router.expert_bias.size()});
    }
    for (const auto& [layer, experts] : step.experts) {
      layers.insert(layer);
      single_experts = std::max({single_experts, experts.counts.size(), experts.shares.size(), experts.biases.size()});
    }
  }
  const bool are_stated = std::ranges::includes(info.moe_layers, layers);
  if (!layers.empty() && !are_stated) info.moe_layers.assign(layers.begin(), layers.end());
  if (list_experts > 0) info.n_experts = to_int(list_experts);
  info.n_experts = std::max(info.n_experts, to_int(single_experts));
  if (info.moe_layers.empty() && info.n_experts > 0)
    for (int layer = std::max(0, stated.dense_layers); layer < info.n_layers; ++layer) info.moe_layers.push_back(layer);
  if (!info.moe_layers.empty()) info.n_layers = std::max(info.n_layers, info.moe_layers.back() + 1);
  return info;
}

// True if the layers and experts of the run are known.
bool RunBuilder::can_open() const {
  if (imported_) return true;
  if (is_open_ended_ && stated.info.n_experts == 0) return false;
  if (first_tokens_ && tokens_per_step_ == 0 && open_.size() < kStepsToTokens) return false;
  const RunInfo info = info_of_steps();
  return !info.moe_layers.empty() && info.n_experts > 0;
}

// Experts are numbered from 1 if each of 1, 2, ... has a value and none is of expert 0, or if the stated number of
// experts says so.
void RunBuilder::find_first_expert() {
  std::vector<std::vector<double>*> lists;
  std::size_t longest = 0;  // of the lists in which experts without tokens are left out
  for (auto& [number, step] : open_)
    for (auto& [layer, experts] : step.experts)
      for (std::vector<double>* values : {&experts.counts, &experts.shares, &experts.biases}) {
        if (values->empty()) continue;
        const bool is_from_1 = values->size() > 2 && std::isnan(values->front()) &&
                               (experts.leaves_out_zeros || !std::isnan((*values)[1]));
        if (!is_from_1) return;
        if (experts.leaves_out_zeros) longest = std::max(longest, values->size());
        lists.push_back(values);
      }
  const std::size_t places = stated_experts() + 1;
  if (lists.empty() || list_size_ > 0 || (longest > 0 && longest != places)) return;
  first_expert_ = 1;
  for (std::vector<double>* values : lists) values->erase(values->begin());
  note("its experts are numbered from 1: they are shown from 0 on");
}

void RunBuilder::open() {
  find_first_expert();
  RunInfo info = info_of_steps();
  if (log_->is_collected) {
    model_layers_ = layers_of_model(info);
    for (int& layer : info.moe_layers)
      if (const auto moved = model_layers_.find(layer); moved != model_layers_.end()) layer = moved->second;
    std::ranges::sort(info.moe_layers);
    info.n_layers = info.moe_layers.empty() ? 0 : info.moe_layers.back() + 1;
    start_s_ = open_.begin()->second.frame.wall_s;
  }
  if (info.top_k == 0 && info.n_experts > 0 && !stated.settings.empty()) {
    SettingsTrack settings;
    settings.add(Marker{0, 0, kSettingsMarker, stated.settings});
    stated.info.top_k = info.top_k = settings.at_start()->value(&RouterConfig::top_k).value_or(0);
  }
  if (info.tokens_per_step == 0) info.tokens_per_step = tokens_per_step_;
  info.name = shown_name().substr(0, kLongestImportedName);
  if (info.source.empty()) info.source = log_->source;
  info.run = log_->options.run + shown_number;
  if (info.moe_layers.size() * std::max(1, info.n_experts) > kMaxImportedLoads) {
    const std::string text =
        fmt::format("{} layers of {} experts are more than can be shown", info.moe_layers.size(), info.n_experts);
    if (!log_->is_collected) throw Unreadable(text);
    refuse(log_->source, text);
  }
  imported_ = std::make_unique<ImportedRun>(std::move(info), log_->options);
  if (!stated.settings.empty()) imported_->add(Marker{0, open_.begin()->first, kSettingsMarker, stated.settings});
  if (!log_->is_collected)
    for (Marker& marker : std::exchange(markers_, {})) imported_->add(std::move(marker));
}

// Returns the layers of the model by the layers of the log, if the log numbers them in the order of their names as
// text.
std::map<int, int> RunBuilder::layers_of_model(const RunInfo& info) {
  const std::vector<int>& layers = info.moe_layers;
  if (!layers_as_text_ || layers.empty()) return {};
  const int first = tags_->layer_offset();
  const bool are_all = layers.front() == 0 && layers.back() + 1 == std::ssize(layers);
  const bool fit = first >= 0 && first + std::ssize(layers) <= static_cast<std::ptrdiff_t>(kMaxImportedLayers);
  const std::string order = "The log numbers its layers in the alphabetical order of their names";
  if (!are_all || layers_as_numbers_ || !fit) {
    note(order + "; to which layers of the model they belong is not known");
    return {};
  }
  std::vector<std::string> names;
  for (int i = 0; i < std::ssize(layers); ++i) names.push_back(std::to_string(first + i));
  std::ranges::sort(names);
  std::map<int, int> model_layers;
  for (const int layer : layers) model_layers.emplace(layer, std::stoi(names[layer]));
  note(
      fmt::format("{} (0, 1, 10, 11, 2); they are shown as layers {} to {} of the model. If the first MoE layer is "
                  "another one, set layer_offset in a mapping file (--tags)",
                  order, first, first + std::ssize(layers) - 1));
  return model_layers;
}

// Adds the loads and biases of a layer that were given by expert. Returns false if not all experts have one.
bool RunBuilder::show_experts(std::int64_t step, Experts& experts, RouterFrame& router) {
  const auto n_experts = static_cast<std::size_t>(imported_->listed_experts());
  std::vector<double>& loads = experts.counts.empty() ? experts.shares : experts.counts;
  if (experts.leaves_out_zeros && !loads.empty()) {
    rows_of_layers_.insert(std::ranges::count_if(loads, [](double load) { return !std::isnan(load); }));
    ++layers_with_rows_;
    loads.resize(n_experts, std::nan(""));
  }
  for (std::size_t e = 0; experts.leaves_out_zeros && e < loads.size(); ++e) {
    has_zero_ = has_zero_ || loads[e] == 0;
    if (!std::isnan(loads[e])) continue;
    loads[e] = 0;
    if (!is_open_ended_ && no_expert_.count++ == 0)
      no_expert_.first =
          fmt::format("{}: no row of expert {}, which is read as 0 tokens", place_text(step, router.layer), e);
  }
  if (is_complete(experts.biases, n_experts)) router.expert_bias.assign(experts.biases.begin(), experts.biases.end());
  const auto is_count = [](double load) { return std::isnan(load) || load == static_cast<std::uint32_t>(load); };
  if (!std::ranges::all_of(experts.counts, is_count)) experts.shares = std::exchange(experts.counts, {});
  if (is_complete(experts.counts, n_experts))
    router.tokens_per_expert.assign(experts.counts.begin(), experts.counts.end());
  else if (router.tokens_per_expert.empty() && is_complete(experts.shares, n_experts)) {
    router.tokens_per_expert = counts_of_ratios(std::vector<float>(experts.shares.begin(), experts.shares.end()));
    router.padding_fraction = kNoRows;
  }
  return !router.tokens_per_expert.empty() || (experts.counts.empty() && experts.shares.empty());
}

void RunBuilder::tell_incomplete(std::int64_t step, int layer, std::int64_t place) {
  if (!log_->is_collected)
    log_->bad.add(place, "tokens_per_expert: does not have a value for each expert", true);
  else
    incomplete_.add(step, layer,
                    fmt::format("loads without values for all {} experts are not shown", imported_->listed_experts()));
}

// Builds the frame of a step. Loads that are not those of all experts are left out.
TelemetryFrame RunBuilder::frame_of(std::int64_t number, Step step) {
  TelemetryFrame frame = std::move(step.frame);
  frame.step = number;
  frame.wall_s -= start_s_;
  for (auto& [layer, experts] : step.experts)
    if (!show_experts(number, experts, router_at(frame.routers, layer))) tell_incomplete(number, layer, step.place);
  const auto n_experts = static_cast<std::size_t>(imported_->listed_experts());
  for (RouterFrame& router : frame.routers) {
    if (log_->is_collected && !router.tokens_per_expert.empty() && router.tokens_per_expert.size() != n_experts) {
      tell_incomplete(number, router.layer, step.place);
      router.tokens_per_expert.clear();
    }
    if (router.expert_bias.size() != n_experts) router.expert_bias.clear();
    if (const auto moved = model_layers_.find(router.layer); moved != model_layers_.end()) router.layer = moved->second;
  }
  if (!model_layers_.empty()) std::ranges::sort(frame.routers, {}, &RouterFrame::layer);
  if (!step.is_late && (may_be_totals_ || are_totals_)) watch_totals(frame.routers);
  drop_figures_of_layers(frame);
  if (step.has_sums) sum_up(frame);
  return frame;
}

void RunBuilder::show_steps() {
  try {
    if (!open_.empty() && !imported_) open();
  } catch (const Unreadable& unreadable) {
    for (const auto& [number, step] : std::exchange(open_, {})) log_->bad.add(step.place, unreadable.what());
  }
  while (!open_.empty()) {  // each step is freed when its frame is built
    auto node = open_.extract(open_.begin());
    const std::int64_t number = node.key(), place = node.mapped().place;
    const bool is_late = node.mapped().is_late, is_added = node.mapped().is_added;
    try {
      TelemetryFrame frame = frame_of(number, std::move(node.mapped()));
      if (!is_late)
        imported_->add(std::move(frame));
      else if (!imported_->join(std::move(frame), is_added))
        throw Unreadable(fmt::format("step {}: these values come after too many later steps", number));
    } catch (const Unreadable& unreadable) {
      log_->bad.add(place, unreadable.what());
    }
  }
  kept_bytes_ = held_bytes_ = 0;
}

void RunBuilder::finish() {
  show_steps();
  if (!log_->is_collected || !imported_) return;
  if (incomplete_.count > 0) note(incomplete_.text());
  if (std::string repeats = restarts_.again_text(); !repeats.empty()) note(std::move(repeats));
  for (std::string& remark : imported_->remarks()) note(std::move(remark));
  if (more_notes_ > 0) remarks_.back() += fmt::format(", and {} more notes", more_notes_);
  const StepRange shown = imported_->history()->steps();
  for (Marker& marker : std::exchange(markers_, {})) {
    marker.step = std::clamp(marker.step, shown.first, shown.last);
    imported_->add(std::move(marker));
  }
}

std::vector<std::string> RunBuilder::remarks() const {
  std::vector<std::string> remarks = remarks_;
  if (log_->is_collected) return remarks;
  if (imported_) std::ranges::copy(imported_->remarks(), std::back_inserter(remarks));
  if (no_expert_.count > 0) remarks.push_back(no_expert_.text());
  if (std::string question = question_of_first_expert(); !question.empty()) remarks.push_back(std::move(question));
  const bool leaves_out_zeros = is_open_ended_ || (no_expert_.count > 0 && !has_zero_);
  if (leaves_out_zeros && stated_experts() == 0 && imported_)
    remarks.push_back(fmt::format(
        "experts without tokens are left out, so that the number of experts is not known: it is read as {}, the "
        "highest that occurs and one; --experts states it",
        imported_->info().n_experts));
  if (std::string repeats = restarts_.again_text(); !repeats.empty()) remarks.push_back(std::move(repeats));
  return remarks;
}

std::string RunBuilder::question_of_first_expert() const {
  const bool leaves_out_zeros = is_open_ended_ || no_expert_.count > 0;
  if (!leaves_out_zeros || stated_experts() > 0 || has_expert_0_ || first_expert_ > 0 || !imported_) return {};
  return fmt::format(
      "no value is of expert 0, which is read as one without tokens: if the experts are numbered from 1, --experts {} "
      "states it",
      imported_->info().n_experts - 1);
}

// Counts on steps that are counted within the epoch: they begin again in a later epoch. After a restart the epoch is
// not a later one.
std::int64_t RunBuilder::step_of_run(const LogRecord& record, std::int64_t step) {
  if (first_step_ < 0) first_step_ = step;
  if (first_distance_ == 0 && step > first_step_) first_distance_ = step - first_step_;
  const NamedValue* found = find_value(record, "epoch");
  const double stated_epoch = found && is_number(*found) ? found->numbers[0] : record.epoch;
  const double epoch = stated_epoch < 0 ? epoch_ : stated_epoch;
  const bool may_be_same = record.epoch >= 0;  // "epoch 2 batch 64", where 64 is their size
  if (step <= first_step_ && step < newest_ + may_be_same && epoch > epoch_) {
    if (steps_before_.empty())
      note(fmt::format("its steps begin at {} again in every epoch: they are counted on over the epochs", step));
    steps_before_[epoch] = newest_ + std::max<std::int64_t>(1, first_distance_) - first_step_;
  }
  epoch_ = epoch;
  if (first_epoch_ < 0) first_epoch_ = epoch;
  const auto later = steps_before_.upper_bound(epoch);
  return later == steps_before_.begin() ? step : std::min(kLastStep, step + std::prev(later)->second);
}

std::string RunBuilder::question_of_rows() const {
  if (layers_with_rows_ < kLoadsToAsk || rows_of_layers_.size() != 1 || stated_experts() > 0 || !imported_) return {};
  const int rows = to_int(*rows_of_layers_.begin()), experts = imported_->info().n_experts;
  if (rows >= experts) return {};
  return fmt::format(
      "each layer has loads of exactly {} experts at every step, as a list of the largest loads has: if the others "
      "have no tokens, --experts {} states it",
      rows, experts);
}

// Looks whether the loads grow and none ever falls, as totals since the start do. Loads that are totals by their name
// become those since the step before.
void RunBuilder::watch_totals(std::vector<RouterFrame>& routers) {
  for (RouterFrame& router : routers) {
    std::vector<std::uint32_t>& counts = router.tokens_per_expert;
    const std::int64_t sum = sum_of(counts);
    if (sum == 0) continue;
    std::vector<std::uint32_t>& before = totals_[router.layer];
    const bool is_first = before.empty();
    const bool are_totals = sum > sum_of(before) && (is_first || std::ranges::equal(before, counts, std::less_equal()));
    may_be_totals_ = may_be_totals_ && are_totals;
    rising_ += !is_first;
    const std::vector<std::uint32_t> logged = counts;
    if (are_totals_ && are_totals && !is_first) std::ranges::transform(counts, before, counts.begin(), std::minus());
    before = logged;
  }
  if (!may_be_totals_ && !are_totals_) totals_.clear();
}

std::string RunBuilder::question_of_totals() const {
  if (!may_be_totals_ || are_totals_ || rising_ < kLoadsToAsk * std::ssize(totals_) || totals_.empty()) return {};
  return std::string("the load of no expert ever falls: are these its tokens since the start? Then state means = \"") +
         kLoadsSoFar + '"';
}

// True if the step has other loads of this layer, of a name before.
bool RunBuilder::differ_from_others(const Name& name, int layer, std::span<const std::uint32_t> counts,
                                    std::int64_t step) const {
  const auto open = open_.find(step);
  if (name.has_value || open == open_.end()) return false;
  const std::vector<RouterFrame>& routers = open->second.frame.routers;
  const auto router = std::ranges::find(routers, layer, &RouterFrame::layer);
  return router != routers.end() && !router->tokens_per_expert.empty() &&
         !std::ranges::equal(router->tokens_per_expert, counts);
}

std::string RunBuilder::question_of_names() const {
  if (other_loads_.empty()) return {};
  return '"' + other_loads_ +
         "\" and another name have different loads of one layer, of which one is read: are the others those of an "
         "encoder, of MTP layers or of another pipeline stage? State \"ignored\" for them, or another layer";
}

std::string RunBuilder::question_of_repeats() const {
  if (restarts_.changed_steps() < kLoadsToAsk || 2 * restarts_.changed_steps() < to_int(logged_)) return {};
  return "most steps have several lines with other values, of which the last is read: are they of ranks, of micro "
         "batches or of several runs? A value rank or micro_batch in each line joins them, a log for each run "
         "separates "
         "them";
}

// Finds the rank of the record. Returns the number of its rank or microbatch; -1: it states none.
int RunBuilder::find_parts(const LogRecord& record) {
  int part = -1;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const NamedValue& value = record.values[i];
    const std::int64_t number = value_names_[i]->is_part ? step_number(value).value_or(-1) : -1;
    if (part < 0 && number >= 0) part = to_int(number & INT32_MAX);
    if (!value_names_[i]->is_rank) continue;
    rank_ = value_names_[i];
    rank_number_ = std::max<std::int64_t>(0, number);
  }
  return part;
}

// Finds the base of the losses: their perplexity is e to their power, or 2 to their power if they are in bits.
void RunBuilder::find_base(const LogRecord& record, double perplexity) {
  constexpr double kTolerance = 0.02;  // of printed numbers
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const TagRule* const rule = value_names_[i]->match.rule;
    if (!rule || !is_loss(*rule) || !is_number(record.values[i]) || loss_unit_ != 0) continue;
    const auto fits = [&](double unit) {
      return std::abs(record.values[i].numbers[0] * unit - std::log(perplexity)) <= kTolerance;
    };
    if (fits(1) != fits(kNatsOfBit)) loss_unit_ = fits(1) ? 1 : kNatsOfBit;
  }
  if (loss_unit_ != kNatsOfBit) return;
  for (const auto& [text, name] : names_) {
    if (!name.has_value || !name.match.rule || !is_loss(*name.match.rule)) continue;
    loss_unit_ = 1;  // values of before are shown as they are
    AccountBook::ask(name.counts, "ce_loss",
                     "2 to its power is the perplexity: is it in bits? Then state scale = 0.6931");
  }
}

// Looks for a whole number of unknown name that differs between records of one step with the same loads. It may be the
// layer, of which the loads would replace each other.
void RunBuilder::watch_layers(const LogRecord& record, std::int64_t step) {
  bool has_loads = false;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const NamedValue& value = record.values[i];
    const TagMatch& match = value_names_[i]->match;
    const bool is_of_one_layer = value.is_list && value.layer < 0 && value.rows.size() < 2;
    has_loads = has_loads || (is_of_one_layer && match.rule && match.layer < 0 && is_list(match));
  }
  if (record.layer >= 0 || !has_loads) return;
  if (std::exchange(loads_step_, step) != step) numbers_of_step_.clear();
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const NamedValue& value = record.values[i];
    if (value.is_own || !is_number(value) || value.numbers[0] > kLastImportedLayer || !step_number(value)) continue;
    const Name& name = *value_names_[i];
    const auto [known, is_new] = numbers_of_step_.try_emplace(std::string(value.name), value.numbers[0]);
    if (name.match.rule || is_new || std::exchange(known->second, value.numbers[0]) == value.numbers[0]) continue;
    if (layer_like_.empty()) layer_like_ = value.name;
    if (layer_like_ != value.name) continue;
    ++layer_like_again_;
    AccountBook::ask(name.counts, "layer", "the loads of a step are logged several times: is this the layer?");
  }
}

std::string RunBuilder::refusal() const {
  // Restarts that drop most steps and go back to steps that were not logged before: the lines were shuffled, or the
  // newest comes first.
  if (to_new_steps_ >= 2 && 2 * dropped_ > logged_)
    return fmt::format(
        "its lines are not in the order of their steps: {} times a smaller step follows that was not logged before, so "
        "that {} of {} steps would be dropped. Sort the lines by their step",
        to_new_steps_, dropped_, logged_);
  constexpr std::size_t kManyRestarts = 10;
  if (restarted_ >= kManyRestarts && 4 * dropped_ > 3 * logged_)
    return fmt::format(
        "its steps go back {} times, so that {} of {} steps would be dropped: are they those of another loop, such as "
        "micro batches? Name the step of the training \"global_step\", or write a log for each run",
        restarted_, dropped_, logged_);
  if (2 * layer_like_again_ > logged_)
    return "the loads of a step are logged several times: " + layer_question(json_string(layer_like_));
  return {};
}

// True if a record of another rank or microbatch came before at this step, so that their loads are added.
bool RunBuilder::is_further_part(int part, int layer, std::int64_t step) {
  if (part < 0) return false;
  if (std::exchange(parts_step_, step) != step) parts_.clear();
  const bool is_new = parts_.emplace(layer, part).second;
  parts_of_layer_ = std::ranges::count(parts_, layer, &std::pair<int, int>::first);
  return is_new && parts_of_layer_ > 1;
}

// Returns how many ranks have the experts of a layer together: each logs `experts` of those that are stated.
std::size_t RunBuilder::ranks_of_list(std::size_t experts) const {
  const std::size_t all = stated_experts();
  return rank_ && experts > 0 && all % experts == 0 ? std::max<std::size_t>(1, all / experts) : 1;
}

void RunBuilder::set_counts(Step& step, int layer, std::span<const std::uint32_t> counts) {
  std::vector<std::uint32_t> counts_by_rank;
  if (const std::size_t ranks = ranks_of_list(counts.size()); ranks > 1) {
    counts_by_rank.resize(ranks * counts.size());
    std::ranges::copy(counts, counts_by_rank.begin() + std::ssize(counts) * (rank_number_ % ranks));
    counts = counts_by_rank;
    loads_of_ranks_ = "; each has other experts";
  }
  std::vector<std::uint32_t>& router_counts = router_at(step.frame.routers, layer).tokens_per_expert;
  if (counts.size() > router_counts.size()) keep(sizeof(std::uint32_t) * (counts.size() - router_counts.size()));
  RankLoads* const loads = rank_ ? &step.ranks[layer] : nullptr;
  if (rank_ && !is_added_ && (step.is_late || !router_counts.empty())) {
    has_ranks_in_turn_ = true;
    AccountBook::leave_out(rank_->counts,
                           "ranks after one another: of a layer that several have, the loads of the last "
                           "are read; sort the lines by step to add them");
  }
  const std::int64_t tokens = loads ? sum_of(counts) : 0;
  if (!is_added_ || router_counts.size() != counts.size()) {
    if (loads) loads->tokens = tokens;
    return router_counts.assign(counts.begin(), counts.end());
  }
  if (loads && loads->copies >= 0 && loads_of_ranks_ != kAddedLoads && std::ranges::equal(router_counts, counts)) {
    ++loads->copies;
    if (loads_of_ranks_.empty()) loads_of_ranks_ = "; all have the same loads, which are not added";
    return AccountBook::leave_out(rank_->counts, "ranks with the same loads: those of one are read");
  }
  if (loads && tokens != loads->tokens) differing_ranks_ = std::max(differing_ranks_, parts_of_layer_);
  const std::uint32_t times = loads ? std::max(0, loads->copies) + 1 : 1;  // the loads of the copies count now
  if (loads) loads->copies = -1;
  if (counts_by_rank.empty()) loads_of_ranks_ = kAddedLoads;
  for (std::size_t e = 0; e < counts.size(); ++e) router_counts[e] = router_counts[e] * times + counts[e];
}

std::string RunBuilder::question_of_ranks() const {
  if (differing_ranks_ == 0 || stated_experts() > 0 || !imported_) return {};
  const int experts = imported_->info().n_experts;
  return fmt::format(
      "{} ranks have different numbers of tokens, and their {} loads are added: if each rank has other experts, there "
      "are {} (--experts)",
      differing_ranks_, experts, experts * differing_ranks_);
}

}  // namespace moescope
