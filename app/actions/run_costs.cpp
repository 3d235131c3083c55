#include "app/actions/run_costs.h"

#include "app/actions/compare_actions.h"
#include "app/session/run_session.h"
#include "app/setup/setup_form.h"
#include "core/config/config_toml.h"
#include "core/numerics/recipes.h"
#include "core/training/engine/run_groups.h"
#include "widgets/look/counted_text.h"
#include "widgets/selection/selection.h"

namespace moescope {

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
  const auto estimate = speeds_.estimate(all_runs(load_preset(preset.toStdString())));
  return aboutDuration(estimate.seconds_per_step * steps) +
         (estimate.isModelled() ? " on an idle machine, modelled" : " on this machine");
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
