#include "widgets/selection/compared_runs.h"

#include "core/findings/comparison/comparison.h"
#include "widgets/look/tokens.h"

namespace moescope {

void ComparedRuns::set(std::vector<ComparedRun> runs, const QString& about) {
  runs_ = std::move(runs);
  about_ = about;
  emit changed();
}

std::vector<PairedRun> ComparedRuns::others(const Selection& selection) const {
  const auto& histories = selection.histories();
  std::vector<PairedRun> other_runs;
  for (std::size_t run = 1; run < histories.size(); ++run)
    other_runs.push_back({histories[run], run >= runs_.size() || runs_[run].same_start});
  return other_runs;
}

std::vector<PairedRun> ComparedRuns::twins(const Selection& selection) const {
  const auto& histories = selection.histories();
  std::vector<PairedRun> twins;
  for (std::size_t run = 1; run < std::min(runs_.size(), histories.size()); ++run)
    if (runs_[run].noise_twin)
      twins.push_back({runs_[run].twin_until ? runs_[run].twin_until : histories[run], runs_[run].same_start});
  return twins;
}

Judging ComparedRuns::judging(const Selection& selection, double matters) const {
  int candidates = 0;
  for (int run = 1; run < std::ssize(selection.histories()); ++run) candidates += !selection.isNoiseTwin(run);
  return {matters, candidates};
}

QString runLetter(const Selection& selection, int place) {
  return QString::fromStdString(run_letter(selection.noiseTwins(), place));
}

int runColor(const Selection& selection, int place) {
  return selection.isNoiseTwin(place) ? kNoiseSeries : number_of_its_kind(selection.noiseTwins(), place);
}

QString runName(const Selection& selection, int place) {
  const auto& histories = selection.histories();
  const QString first = QString::fromStdString(histories.front()->info().name) + QLatin1Char('+');
  const QString name = QString::fromStdString(histories[place]->info().name);
  return name.startsWith(first) ? name.mid(first.size()) : name;
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

QString listed(QStringList names) {
  const QString last = names.takeLast();
  return names.isEmpty() ? last : names.join(QStringLiteral(", ")) + QStringLiteral(" and ") + last;
}

QString nothingToCompareNotice() {
  return QString(
      "Nothing to compare: \"Compare\" in the bar trains another run beside this one; logs and recordings are compared "
      "when they are opened together");
}

}  // namespace moescope
