// The verdict on all candidates in one line. Logs whose loss gap is not judged have the health of each instead if one
// has a fault, and the verdict of the regression gate. At its right are a text about what would settle open verdicts,
// and a button for it. A narrow strip shortens or hides this text first, then what it says about the runs.
#pragma once

#include <QPushButton>
#include <QToolButton>
#include <QWidget>
#include <functional>
#include <span>
#include <utility>

#include "core/findings/health.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/sign.h"

namespace moescope {

class VerdictStrip : public QWidget {
  Q_OBJECT

 public:
  VerdictStrip(Selection* selection, JudgedRuns* judged, QWidget* parent = nullptr);

  // `health` returns the verdict on the router of an open run; nullptr: not judged yet.
  void setHealth(std::function<const Health*(int run)> health) { health_ = std::move(health); }
  void fill();
  // The answer of the regression gate on a run, without its letter: "since step 8: MaxVio, layer 7".
  void setRegression(int run, const QString& word, Sign sign, const QString& place);
  QString text() const;  // "Good enough: B mxfp8_rceil. Worse: D mxfp4"
  QString settlementText() const { return settle_->text(); }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

 signals:
  void runWanted();                      // requests another run: a twin of a run in training, or another log
  void twinRequested();                  // requests a noise twin
  void forcedBalanceRequested();         // requests that all runs start again with forced balance
  void seedsRequested();                 // requests that all runs start again with further seeds, one after another
  void stepsRequested(qint64 step);      // requests training up to `step`
  void explanationRequested(QPoint at);  // global position

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent*) override { place(); }
  void showEvent(QShowEvent*) override { fill(); }
  bool event(QEvent* event) override;

 private:
  struct Item {
    QString word;
    Sign sign;
    bool says_word;  // the word is written, since the item before has another
    QString letter;
    QStringList names;  // from long to short; the last may be empty
    int color;
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> healthItems() const;
  void fillSettlement();
  QStringList otherTextForms(const Conclusion& c) const;
  QString verdictsText(std::span<const Conclusion> candidates) const;
  QStringList pastForms() const;
  QStringList seedForms() const;
  QStringList endForms() const;
  bool asksForSeeds(const Settlement& found) const;
  QStringList undetectedForms() const;
  QStringList settlementForms(const Settlement& found) const;
  QString runsOf(const Settlement& found) const;
  int nameWidth(std::size_t item) const;
  int itemsWidth() const;
  void place();

  Selection* selection_;
  JudgedRuns* judged_;
  QString regression_word_, regression_place_;  // no word: the gate has no answer
  Sign regression_sign_ = Sign::unsure;
  int regression_run_ = 0;
  std::function<const Health*(int run)> health_;
  std::vector<Item> items_;
  std::vector<int> forms_;       // of the names of the items that fit; of items_
  QStringList instead_;          // why there is no verdict, from long to short
  QString kept_settlement_;      // the shortest, for which the names of the runs are shortened
  std::int64_t step_ = 0;        // step to which the button trains; 0: the button adds a twin
  bool force_ = false;           // the button starts the runs with forced balance
  bool is_newest_ = true;        // false: the verdicts are those of an earlier step, where the cursor is
  bool shows_health_ = false;    // the line has the health of logs, at their last steps
  bool asks_for_seeds_ = false;  // the button asks for further seeds
  FittedLabel* settle_;
  QPushButton* button_;
  QToolButton* explain_;
};

}  // namespace moescope
