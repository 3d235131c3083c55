#include "app/actions/run_costs.h"

#include <algorithm>
#include <cmath>

#include "app/actions/compare_actions.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/setup/setup_form.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/numerics/recipes.h"
#include "core/numerics/threads.h"
#include "core/training/run_cost.h"
#include "widgets/look/counted_text.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/selection.h"

namespace moescope {

namespace {

constexpr char kSpeedsKey[] = "speeds";
constexpr qsizetype kKeptSpeeds = 16;
// Distance between runs with other formats, in ln of the work: about that of twice the work.
constexpr double kOtherFormats = 0.7;
// Assumed until a step is measured: a third of the speed of a thread of a Xeon in FP32 (docs/performance.md), since
// statistics and emulated formats take time, too.
constexpr double kModelledFlopsPerThread = 2e10;

// Returns all settings that decide how fast a step with a given work is: recipes of linear layers, and the optimizer.
QString allFormats(const RunConfig& config) {
  QStringList formats;
  for (const ConfigField& field : config_fields())
    if ((Setting(field).is_in<PrecisionConfig>() && !field.derived) || Setting(field) == &OptimizerConfig::name)
      formats << QString::fromStdString(to_string(field.get(config)));
  return formats.join(' ');
}

QString millions(std::int64_t count) {
  const double m = count * 1e-6;
  return QString("%1 M").arg(m, 0, 'f', m < 1 ? 2 : 1);
}

QString megabytes(std::int64_t bytes) {
  return formatBytes(bytes).remove(".0").replace(' ', QChar::Nbsp);
}

RunCost costOfAll(const std::vector<RunConfig>& runs) {
  RunCost all;
  for (const RunConfig& run : runs) {
    const RunCost cost = run_cost(run);
    all.parameters += cost.parameters;
    all.active += cost.active;
    all.bytes += cost.bytes;
  }
  return all;
}

QString originText(const RunSpeeds::Estimate& estimate) {
  if (estimate.isModelled())
    return QString("estimate: %1 GFLOP/s on each of %2")
        .arg(1e-9 * kModelledFlopsPerThread)
        .arg(countedText(num_threads(), "thread"));
  return estimate.measured
             ? QString("measured here")
             : QString("computed from FLOPs and the step time of %1, measured here").arg(estimate.measured_run);
}

}  // namespace

RunSpeeds::RunSpeeds(bool keeps) : keeps_(keeps) {
  if (!keeps_) return;
  for (const QString& line : settings().value(kSpeedsKey).toStringList()) {
    const QStringList parts = line.split('\t');
    if (parts.size() != 4) continue;
    const Speed speed{parts[0], parts[1], parts[2].toDouble(), parts[3].toDouble()};
    if (speed.flops_per_step > 0 && speed.seconds_per_step > 0) speeds_ << speed;
  }
}

RunSpeeds::Speed RunSpeeds::speedOf(const std::vector<RunConfig>& runs, double seconds_per_step) {
  Speed speed{QString::fromStdString(runs.front().name), {}, 0, seconds_per_step};
  QStringList formats;
  for (const RunConfig& run : runs) {
    formats << allFormats(run);
    speed.flops_per_step += run_cost(run).flops_per_step;
  }
  speed.formats = formats.join(QStringLiteral(" + "));
  return speed;
}

void RunSpeeds::note(const std::vector<RunConfig>& runs, double seconds_per_step) {
  if (!(seconds_per_step > 0)) return;
  Speed measured = speedOf(runs, seconds_per_step);
  speeds_.removeIf([&](const Speed& speed) {
    const bool is_same = speed.formats == measured.formats && speed.flops_per_step == measured.flops_per_step;
    // Half of the weight for earlier measurements: other programs may have slowed down the newest one.
    if (is_same) measured.seconds_per_step = std::sqrt(speed.seconds_per_step * measured.seconds_per_step);
    return is_same;
  });
  speeds_.prepend(measured);
  while (speeds_.size() > kKeptSpeeds) speeds_.removeLast();
  if (!keeps_) return;
  QStringList lines;
  for (const Speed& speed : speeds_)
    lines << QStringList{speed.name, speed.formats, QString::number(speed.flops_per_step, 'g', 17),
                         QString::number(speed.seconds_per_step, 'g', 6)}
                 .join('\t');
  settings().setValue(kSpeedsKey, lines);
}

RunSpeeds::Estimate RunSpeeds::estimate(const RunConfig& config) const {
  const double flops = run_cost(config).flops_per_step;
  if (speeds_.isEmpty()) return {flops / (kModelledFlopsPerThread * num_threads()), false, {}};
  const QString formats = allFormats(config);
  const auto distance = [&](const Speed& speed) {
    return std::abs(std::log(flops / speed.flops_per_step)) + (speed.formats == formats ? 0 : kOtherFormats);
  };
  const Speed& nearest = *std::ranges::min_element(speeds_, {}, distance);
  return Estimate{nearest.seconds_per_step * flops / nearest.flops_per_step, distance(nearest) == 0, nearest.name};
}

// The sum counts as measured only if all its parts were measured. The same runs may have been measured together.
RunSpeeds::Estimate RunSpeeds::estimate(const std::vector<RunConfig>& runs) const {
  const Speed together = speedOf(runs, 0);
  for (const Speed& speed : speeds_)
    if (speed.formats == together.formats && speed.flops_per_step == together.flops_per_step)
      return Estimate{speed.seconds_per_step, true, speed.name};
  Estimate all = estimate(runs.front());
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const Estimate next = estimate(runs[i]);
    all.seconds_per_step += next.seconds_per_step;
    if (all.measured && !next.measured) all.measured_run = next.measured_run;
    all.measured &= next.measured;
  }
  return all;
}

QString RunSpeeds::listText(const std::vector<RunConfig>& runs) const {
  const RunCost cost = costOfAll(runs);
  const int steps = runs.front().optimizer.total_steps;
  QString text = runs.size() > 1 ? QString("%1 runs, ").arg(runs.size()) : QString();
  text += QString("%1 parameters, %2, %3")
              .arg(millions(cost.parameters), megabytes(cost.bytes), countedText(steps, "step"));
  const Estimate speed = estimate(runs);
  return text + " in " + aboutDuration(steps * speed.seconds_per_step) +
         (speed.isModelled() ? " (estimate)" : " on this machine");
}

QString RunSpeeds::shortText(const RunConfig& run) const {
  const int steps = run.optimizer.total_steps;
  const QString text = QString("%1, %2").arg(megabytes(run_cost(run).bytes), countedText(steps, "step"));
  const Estimate speed = estimate(run);
  const QString origin = speed.isModelled() ? QString("estimate") : "estimated from " + speed.measured_run;
  return text + QString(" in %1 (%2)")
                    .arg(aboutDuration(steps * speed.seconds_per_step), speed.measured ? "measured here" : origin);
}

QString RunSpeeds::costText(const std::vector<RunConfig>& runs) const {
  const RunCost cost = costOfAll(runs);
  QString text = runs.size() > 1 ? QString("%1 runs on the same batches, together ").arg(runs.size()) : QString();
  text += QString(
              "%1 parameters, %2 active per token; %3 for weights, gradients and the optimizer (counted; the batch "
              "comes on top). ")
              .arg(millions(cost.parameters), millions(cost.active), megabytes(cost.bytes));
  const int steps = runs.front().optimizer.total_steps;
  const Estimate speed = estimate(runs);
  return text + QString("%1 steps: %2 (%3).")
                    .arg(groupedText(steps), aboutDuration(steps * speed.seconds_per_step), originText(speed));
}

QString RunSpeeds::twinsText(const std::vector<RunConfig>& twins, std::int64_t step) const {
  const RunCost cost = costOfAll(twins);
  QString text =
      (twins.size() == 1 ? QString("The twin takes") : QString("The %1 twins take together").arg(twins.size())) +
      QString(" %1 more for weights, gradients and the optimizer (counted).").arg(megabytes(cost.bytes));
  const Estimate speed = estimate(twins);
  if (step > 0)
    text += QString(twins.size() == 1 ? " It catches up %1 steps in %2." : " They catch up %1 steps in %2.")
                .arg(groupedText(step), aboutDuration(step * speed.seconds_per_step));
  return text + QString(" From then on each step of all runs takes %1 ms longer (%2).")
                    .arg(groupedText(std::llround(1000 * speed.seconds_per_step)), originText(speed));
}

QString RunSpeeds::groupsText(const std::vector<RunGroup>& groups, std::int64_t steps) const {
  std::int64_t largest = 0;
  std::vector<RunConfig> all;
  for (const RunGroup& group : groups) {
    largest = std::max(largest, costOfAll(group.runs).bytes);
    all.insert(all.end(), group.runs.begin(), group.runs.end());
  }
  QString text = QString(
                     "%1 runs of %2 steps in all. Memory: up to %3 at a time for weights, gradients and the "
                     "optimizer (counted; the batch and the runs' histories come on top).")
                     .arg(all.size())
                     .arg(groupedText(steps), megabytes(largest));
  const Estimate speed = estimate(all);
  return text + QString(" Time: %1 (%2).").arg(aboutDuration(steps * speed.seconds_per_step), originText(speed));
}

namespace {

constexpr std::int64_t kWarmUpSteps = 5;  // the first steps are slower: they load memory and code
constexpr int kSamples = 12;              // samples for the first figure; each later figure takes twice as many

// Returns for example "16 experts in 3 layers, MXFP8".
QString modelText(const RunConfig& config) {
  const int layers = config.model.n_layers - config.model.n_dense_layers;
  const QString recipe = recipe_info(config.precision.experts).words;
  return QString("%1 in %2, %3")
      .arg(countedText(config.model.n_experts, "expert"), countedText(layers, "layer"), recipe.section(',', 0, 0));
}

}  // namespace

RunCosts::RunCosts(const Context& context, SetupForm* form, CompareActions* comparison, bool keeps)
    : Actions(context), form_(form), speeds_(keeps) {
  form_->setCosts(
      [this](const RunConfig& config) {
        return SetupForm::Cost{speeds_.shortText(config), speeds_.costText({config})};
      },
      [this](const QString& preset) {
        const std::vector<RunConfig> runs = all_runs(load_preset(preset.toStdString()));
        return SetupForm::Cost{speeds_.listText(runs), speeds_.costText(runs)};
      });
  comparison->setCost([this](const std::vector<RunConfig>& candidates, std::int64_t steps) {
    if (steps == 0) return speeds_.twinsText(candidates, session_->isLive() ? session_->live()->status().step : 0);
    std::vector<RunConfig> runs{session_->config()};
    runs.insert(runs.end(), candidates.begin(), candidates.end());
    return speeds_.groupsText(candidate_groups(runs), steps);
  });
  measureAnew();
  for (auto signal : {&RunSession::opened, &RunSession::configChanged, &RunSession::runsChanged})
    connect(session_, signal, this, &RunCosts::measureAnew);
  for (auto signal : {&RunSession::opened, &RunSession::runsChanged})
    connect(session_, signal, this, &RunCosts::expectFirstStep);
}

void RunCosts::expectFirstStep() {
  std::optional<double> seconds;
  if (session_->isLive())
    if (const auto estimate = speeds_.estimate(session_->configs()); !estimate.isModelled())
      seconds = estimate.seconds_per_step;
  selection_->setFirstStepSeconds(seconds);
}

QString RunCosts::presetText(const QString& preset) const {
  const std::vector<RunConfig> runs = all_runs(load_preset(preset.toStdString()));
  return modelText(runs.front()) + ". " + speeds_.listText(runs);
}

QString RunCosts::timeText(const QString& preset, std::int64_t steps) const {
  return aboutDuration(speeds_.estimate(all_runs(load_preset(preset.toStdString()))).seconds_per_step * steps);
}

void RunCosts::measureAnew() {
  seconds_ = 0;
  samples_ = 0;
  next_samples_ = kSamples;
}

// The speed of several runs is measured for all of them together.
void RunCosts::showStatus(const LiveStatus& status) {
  const bool news = status.running && status.step >= kWarmUpSteps && status.step != last_step_;
  last_step_ = status.step;
  if (!news || status.tokens_per_s <= 0 || !status.catching_up.empty()) return;
  const std::vector<RunConfig> configs = session_->configs();
  double tokens = 0;
  for (const RunConfig& config : configs) tokens += static_cast<double>(config.data.batch) * config.data.seq;
  seconds_ += tokens / status.tokens_per_s;
  if (++samples_ < next_samples_) return;
  next_samples_ *= 2;
  speeds_.note(configs, seconds_ / samples_);
  form_->showCost();
}

}  // namespace moescope
