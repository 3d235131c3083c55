#include "widgets/selection/compared_runs.h"

namespace moescope {

void ComparedRuns::set(std::vector<ComparedRun> runs, const QString& about) {
  runs_ = std::move(runs);
  about_ = about;
  emit changed();
}

QString ComparedRuns::noiseTwins() const {
  QStringList letters;
  for (int run = 1; run < static_cast<int>(runs_.size()); ++run)
    if (runs_[static_cast<std::size_t>(run)].noise_twin) letters << runLetter(run);
  return letters.join(QStringLiteral(", "));
}

std::vector<HistoryPtr> ComparedRuns::sameSettings(const Selection& selection) const {
  const auto& histories = selection.histories();
  std::vector<HistoryPtr> same;
  if (histories.empty()) return same;
  same.push_back(histories.front());
  for (std::size_t run = 1; run < std::min(runs_.size(), histories.size()); ++run)
    if (runs_[run].noise_twin) same.push_back(runs_[run].twin_until ? runs_[run].twin_until : histories[run]);
  return same;
}

QString runLetter(int place) {
  return QString(QChar(u'A' + place));
}

QString runLabel(const Selection& selection, int place) {
  const auto& histories = selection.histories();
  const QString first = QString::fromStdString(histories.front()->info().name) + QLatin1Char('+');
  const QString name = QString::fromStdString(histories[static_cast<std::size_t>(place)]->info().name);
  return runLetter(place) + QLatin1Char(' ') + (name.startsWith(first) ? name.mid(first.size()) : name);
}

int comparedRun(const Selection& selection) {
  if (selection.histories().size() < 2) return -1;
  return selection.run() > 0 ? selection.run() : 1;
}

QString nothingToCompareNotice() {
  return QObject::tr(
      "Nothing to compare with: \"Compare with...\" in the run bar trains a twin of run A; logs and recordings are "
      "compared when they are opened together");
}

QString csvField(const QString& text) {
  return QLatin1Char('"') + QString(text).replace(QLatin1Char('"'), QStringLiteral("\"\"")) + QLatin1Char('"');
}

}  // namespace moescope
