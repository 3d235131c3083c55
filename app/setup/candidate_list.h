// The candidates that are to be compared with run A: a list that takes up to kMaxCandidates, and for how many steps
// they train where they are more than can train beside run A.
#pragma once

#include <QWidget>
#include <vector>

#include "core/config/run_config.h"

class QLabel;
class QListWidget;
class QPushButton;
class QSpinBox;

namespace moescope {

class CandidateList : public QWidget {
  Q_OBJECT

 public:
  explicit CandidateList(const RunConfig& first, QWidget* parent = nullptr);

  // Each returns why it was refused; empty: it is on the list.
  QString add(const RunConfig& candidate);
  QString changeChosen(const RunConfig& candidate);  // in place of the chosen one
  const RunConfig* chosen() const;                   // nullptr: none

  const std::vector<RunConfig>& candidates() const { return candidates_; }
  void setRoom(int runs);  // that can train beside run A at once
  bool inGroups() const { return static_cast<int>(candidates_.size()) > room_; }
  int steps() const;  // of each group
  // The list in a sentence or two: how it trains, and what is missing for a verdict.
  QString words() const;

 signals:
  void changed();

 private:
  QString refusal(const RunConfig& candidate, int instead) const;  // `instead` of that row; -1: one more
  void remove();
  void fill(int chosen);

  const RunConfig first_;
  std::vector<RunConfig> candidates_;
  int room_;
  QLabel* title_;
  QListWidget* list_;
  QPushButton* remove_;
  QWidget* steps_row_;
  QSpinBox* steps_;
};

}  // namespace moescope
