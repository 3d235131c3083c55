#include "widgets/compare/judged_runs.h"

#include "widgets/panel/metric_text.h"
#include "widgets/panel/panel.h"

namespace moescope {
namespace {

// Returns the first log that has no loss at all, such as a trace of a router; nullptr if each log has one.
const History* runWithoutLoss(const std::vector<HistoryPtr>& histories) {
  const auto none = [](const HistoryPtr& history) {
    return history->info().config_toml.empty() && !history->steps().empty() &&
           history->series(Metric::ce_loss, kWholeRun, history->steps(), 1).at(0).finite == 0;
  };
  const auto found = std::ranges::find_if(histories, none);
  return found == histories.end() ? nullptr : found->get();
}

}  // namespace

QString gapText(const Conclusion& conclusion) {
  const auto number = [](float value) { return inPrint(QString::number(value, 'g', 2)); };
  return (conclusion.gap > 0 ? QStringLiteral("+") : QString()) + number(conclusion.gap) + QStringLiteral(" \u00b1 ") +
         number(conclusion.half_width);
}

JudgedRuns::JudgedRuns(Selection* selection, const ComparedRuns* runs, QObject* parent)
    : QObject(parent), selection_(selection), runs_(runs) {
  // These are the first connections, so that all parts update after them.
  connect(this, &JudgedRuns::changed, this, [this] { is_stale_ = true; });
  connect(selection_, &Selection::dataChanged, this, [this] { is_stale_ = true; });
  connect(runs_, &ComparedRuns::changed, this, &JudgedRuns::changed);
  connect(selection_, &Selection::timeChanged, this, [this] {
    if (const std::int64_t last_step = lastStep(); std::exchange(shown_last_step_, last_step) != last_step)
      emit changed();
  });
}

QString JudgedRuns::update() {
  const auto& histories = selection_->histories();
  if (histories.empty()) return noDataYetNotice(*selection_);
  if (baseline_ >= std::ssize(histories) || selection_->isNoiseTwin(baseline_)) baseline_ = 0;
  if (histories.size() < 2) return nothingToCompareNotice();
  if (selection_->range().empty()) return noDataYetNotice(*selection_);
  if (const History* lossless = runWithoutLoss(histories))
    return notInLogNotice(lossless->info(), metricName(Metric::ce_loss));
  if (!std::exchange(is_stale_, false) && training_.runs() + 1 == std::ssize(histories)) return {};
  Judging judging = runs_->judging(*selection_);
  judging.last_step = lastStep();
  const auto other_runs = runs_->otherRuns(*selection_, baseline_), twins = runs_->twins(*selection_);
  training_.set(histories.front(), other_runs, twins, judging);
  validation_.set(histories.front(), other_runs, twins, judging);
  return {};
}

Metric JudgedRuns::judgedLoss(int place) const {
  if (loss_ != Loss::deciding) return loss_ == Loss::training ? Metric::ce_loss : Metric::val_loss;
  const auto& histories = selection_->histories();
  return deciding_loss(*histories[selection_->isNoiseTwin(place) ? 0 : baseline_], *histories[place]);
}

void JudgedRuns::setBaseline(int place) {
  if (!selection_->isNoiseTwin(place) && std::exchange(baseline_, place) != place) setSeeds({}, 0);
}

std::int64_t JudgedRuns::lastStep() const {
  if (selection_->following() || selection_->histories().empty() || onTheSameTexts(*selection_)) return kNoLastStep;
  return selection_->stepOf(*selection_->histories()[baseline_], selection_->step());
}

// A run whose loss is NaN or infinite is judged by its training loss, which shows this first.
bool JudgedRuns::isByTraining(int place) const {
  return judgedLoss(place) == Metric::ce_loss || training_.conclusion(pairOf(place)).verdict == Verdict::lost;
}

const Conclusion& JudgedRuns::conclusion(int place) const {
  return (isByTraining(place) ? training_ : validation_).conclusion(pairOf(place));
}

const std::vector<PastVerdict>& JudgedRuns::past(int place) {
  return (isByTraining(place) ? training_ : validation_).past(pairOf(place));
}

std::vector<int> JudgedRuns::candidates() const {
  std::vector<int> places;
  const int baseline = baseline_ <= judged() ? baseline_ : 0;
  for (int place = 0; place <= judged(); ++place)
    if (place != baseline && !selection_->isNoiseTwin(place)) places.push_back(place);
  return places;
}

float JudgedRuns::matters() const {
  for (int place = 1; place <= judged(); ++place)
    if (const float matters = conclusion(place).matters; !is_missing(matters)) return matters;
  return kNoValue;
}

Settlement JudgedRuns::settlement() const {
  if (onTheSameTexts(*selection_)) return {};
  std::vector<Conclusion> conclusions;
  for (const int place : candidates()) conclusions.push_back(conclusion(place));
  return what_settles(conclusions, room_, can_force_);
}

std::vector<Conclusion> JudgedRuns::newestConclusions() {
  std::vector<Conclusion> conclusions;
  if (!update().isEmpty()) return conclusions;
  for (const int place : candidates())
    conclusions.push_back((isByTraining(place) ? training_ : validation_).newest(pairOf(place)));
  return conclusions;
}

}  // namespace moescope
