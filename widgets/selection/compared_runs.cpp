#include "widgets/selection/compared_runs.h"

#include <QRegularExpression>
#include <algorithm>

#include "widgets/look/tokens.h"

namespace moescope {

void ComparedRuns::set(std::vector<ComparedRun> runs) {
  runs_ = std::move(runs);
  emit changed();
}

std::vector<PairedRun> ComparedRuns::otherRuns(const Selection& selection, int baseline) const {
  const auto& histories = selection.histories();
  std::vector<PairedRun> other_runs;
  for (int place = 1; place < std::ssize(histories); ++place) {
    const int run = place == baseline ? 0 : place;
    if (baseline == 0 || selection.isNoiseTwin(run))
      other_runs.push_back({histories[run], startsLikeA(run)});
    else
      other_runs.push_back(
          {histories[run], startsLikeA(run) && startsLikeA(baseline), histories[baseline], twinsServe(run, baseline)});
    other_runs.back().by_tokens = selection.isByTokens();
  }
  return other_runs;
}

// The noise twins of run A serve a baseline that differs from run A in nothing but what is compared: every setting in
// which it differs has another value in the run at `place`.
bool ComparedRuns::twinsServe(int place, int baseline) const {
  if (std::max(place, baseline) >= std::ssize(runs_)) return true;
  return std::ranges::none_of(runs_[baseline].settings, [&](const SettingDifference& setting) {
    return std::ranges::find(runs_[place].settings, setting) != runs_[place].settings.end();
  });
}

std::vector<PairedRun> ComparedRuns::twins(const Selection& selection) const {
  const auto& histories = selection.histories();
  std::vector<PairedRun> twins;
  for (std::size_t run = 1; run < std::min(runs_.size(), histories.size()); ++run)
    if (runs_[run].noise_twin)
      twins.push_back({runs_[run].twin_until ? runs_[run].twin_until : histories[run], runs_[run].same_start});
  return twins;
}

Judging ComparedRuns::judging(const Selection& selection) const {
  int candidates = 0;
  for (int run = 1; run < std::ssize(selection.histories()); ++run) candidates += !selection.isNoiseTwin(run);
  return {share_, candidates, goes_on_};
}

QString runLetter(const Selection& selection, int place) {
  return QString::fromStdString(run_letter(selection.noiseTwins(), place));
}

int runColor(const Selection& selection, int place) {
  return selection.isNoiseTwin(place) ? kNoiseSeries : number_of_its_kind(selection.noiseTwins(), place);
}

int curveColor(const Selection& selection, int curve) {
  const int color = runColor(selection, selection.run());
  if (selection.histories().size() > 1) return color + curve * kSeriesShade;
  return color == kNoiseSeries && curve > 0 ? curve : color + curve;
}

QString runName(const Selection& selection, int place) {
  const auto& histories = selection.histories();
  const QString first = QString::fromStdString(histories.front()->info().name) + QLatin1Char('+');
  const QString name = QString::fromStdString(histories[place]->info().name);
  const QString words = valueWords(name.startsWith(first) ? name.mid(first.size()) : name);
  static const QRegularExpression kFormat(QStringLiteral("^(bf16|(mx|nv)?fp[0-9]+)(?![a-z0-9_])"));
  const auto format_length = kFormat.match(words).capturedLength();
  return words.left(format_length).toUpper() + words.mid(format_length);
}

QString valueWords(const QString& value) {
  const auto recipe = recipe_named(value.toStdString());
  return recipe ? QLatin1String(recipe_info(*recipe).words) : value;
}

QString runLabel(const Selection& selection, int place) {
  return runLetter(selection, place) + QLatin1Char(' ') + runName(selection, place);
}

int comparedRun(const Selection& selection) {
  if (selection.histories().size() < 2) return -1;
  return selection.run() > 0 ? selection.run() : 1;
}

bool onTheSameTexts(const Selection& selection) {
  const auto& histories = selection.histories();
  return histories.size() > 1 && on_the_same_texts(*histories[0], *histories[1]);
}

bool comparesForced(const Selection& selection) {
  const auto& histories = selection.histories();
  return histories.size() > 1 && std::ranges::all_of(histories, [](const HistoryPtr& run) {
           return run->settings_at_start()->holds(&RouterConfig::force_balance);
         });
}

QStringList forcedAnswer(const Selection& selection, std::int64_t step) {
  const bool is_forced = selection.history()->settings_at(step)->holds(&RouterConfig::force_balance);
  return is_forced ? QStringList{"Balance is forced: no choice of the router"} : QStringList();
}

QString ownStep(const Selection& selection, const History& run, std::int64_t mouse_step) {
  const bool is_of_mouse = mouse_step >= 0;
  const std::int64_t own_step = is_of_mouse ? selection.stepOf(run, mouse_step) : selection.shownStepOf(run);
  const std::int64_t step = is_of_mouse ? mouse_step : selection.step();
  return own_step == step || own_step < 0 ? QString() : selection.rangeText({own_step, own_step});
}

QString textOfOthers(const Selection& selection, const std::function<QString(const History&)>& text,
                     std::int64_t mouse_step) {
  QStringList texts;
  for (int run = 0; run < std::ssize(selection.histories()); ++run) {
    const History& history = *selection.histories()[run];
    if (run == selection.run() || selection.isNoiseTwin(run) || history.steps().empty()) continue;
    const QString step = ownStep(selection, history, mouse_step);
    if (const QString run_text = text(history); !run_text.isEmpty())
      texts << runLetter(selection, run) + (step.isEmpty() ? step : QString(" (%1)").arg(step)) + ": " + run_text;
  }
  return texts.join(QStringLiteral("; "));
}

QString textOfRuns(const Selection& selection, const std::function<QString(const History&)>& text) {
  const QString text_of_others = textOfOthers(selection, text), letter = runLetter(selection, selection.run());
  return text_of_others.isEmpty() ? text_of_others
                                  : QString("%1: %2; %3").arg(letter, text(*selection.history()), text_of_others);
}

QString listed(QStringList names) {
  const QString last = names.takeLast();
  return names.isEmpty() ? last : names.join(QStringLiteral(", ")) + QStringLiteral(" and ") + last;
}

QString nothingToCompareNotice() {
  return QString("Nothing to compare: the button + in the bar adds another run");
}

}  // namespace moescope
