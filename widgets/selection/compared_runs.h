// The open runs in a comparison: their letters, names and known settings.
#pragma once

#include <QObject>
#include <QString>
#include <functional>
#include <utility>
#include <vector>

#include "core/findings/comparison/comparison.h"
#include "widgets/selection/selection.h"

namespace moescope {

struct SettingDifference {
  QString key, a_value, run_value;
  bool operator==(const SettingDifference&) const = default;
};

// The settings in which an open run differs from run A; empty for run A itself.
struct ComparedRun {
  bool noise_twin = false;  // differs from run A by chance alone
  bool same_start = true;   // whether it starts like run A: equal seed and model
  HistoryPtr twin_until;    // part of a noise twin before its settings or run A's were changed
  std::vector<SettingDifference> settings;
};

// The compared runs, in the order of Selection::histories(). The owner of the settings sets them; empty for logs
// without settings.
class ComparedRuns : public QObject {
  Q_OBJECT

 public:
  explicit ComparedRuns(QObject* parent = nullptr) : QObject(parent) {}
  void set(std::vector<ComparedRun> runs);
  const std::vector<ComparedRun>& runs() const { return runs_; }
  // All runs but run A, compared with the run at `baseline`; the place of the baseline holds run A. Noise twins are
  // compared with run A.
  std::vector<PairedRun> otherRuns(const Selection& selection, int baseline = 0) const;
  std::vector<PairedRun> twins(const Selection& selection) const;  // noise twins of run A
  Judging judging(const Selection& selection) const;
  double share() const { return share_; }  // share of run A's loss from which a gap matters
  void setShare(double share) {
    if (std::exchange(share_, share) != share) emit changed();
  }
  // Whether more steps will come, so that a verdict is one so far.
  void setGoesOn(bool goes_on) {
    if (std::exchange(goes_on_, goes_on) != goes_on) emit changed();
  }

 signals:
  void changed();

 private:
  bool startsLikeA(int place) const { return place >= std::ssize(runs_) || runs_[place].same_start; }
  bool twinsServe(int place, int baseline) const;

  std::vector<ComparedRun> runs_;
  double share_ = kRelevantGap;
  bool goes_on_ = false;
};

// Letter of the run at `place`: A, B, C, ... for run A and the candidates in their order; N, N2, ... for noise twins.
QString runLetter(const Selection& selection, int place);
int runColor(const Selection& selection, int place);  // index of seriesColor; kNoiseSeries for noise twins
// Colour of a curve of the active run: curve 0 has the colour of the run; further curves have the colours after it, or
// shades of the run's colour if other runs are open, whose colours those are.
int curveColor(const Selection& selection, int curve = 0);
QString runName(const Selection& selection, int place);  // "nano"; for a twin the difference from A: "MXFP4"
QString valueWords(const QString& value);  // "MXFP8, scales rounded up" for "mxfp8_rceil"; other values as they are
QString runLabel(const Selection& selection, int place);  // "A nano", "B MXFP4"
// The run that panels show beside run A if only one fits: the active run, or run B if run A is active; -1 if only one
// run is open.
int comparedRun(const Selection& selection);
bool onTheSameTexts(const Selection& selection);  // true if checkpoints on the same texts are compared: nothing trains
// True if runs with forced balance are compared: their losses differ, their routing does not.
bool comparesForced(const Selection& selection);
// The answer of panels on choices of the router for a step with forced balance; else empty.
QStringList forcedAnswer(const Selection& selection, std::int64_t step);
QString nothingToCompareNotice();
// "step 799" of a run that is shown at another step than the active run, at the step under the mouse or else at the
// cursor; empty: it is the same step.
QString ownStep(const Selection& selection, const History& run, std::int64_t mouse_step = -1);
// A text on each other open run that is no noise twin, after its letter and own step: "B: 0.167; C (step 9): 0.2";
// empty: none has one.
QString textOfOthers(const Selection& selection, const std::function<QString(const History&)>& text,
                     std::int64_t mouse_step = -1);
// The same for all runs, the selected one first.
QString textOfRuns(const Selection& selection, const std::function<QString(const History&)>& text);
QString listed(QStringList names);  // "B", "B and C", "B, C and N"

}  // namespace moescope
