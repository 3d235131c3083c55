// The list of candidates to compare with run A, up to kMaxCandidates, and the number of steps that they train if they
// do not all fit beside run A.
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

  // Adds a candidate. Returns why it was refused; empty: it is on the list.
  QString add(const RunConfig& candidate);
  QString changeChosen(const RunConfig& candidate);  // replaces the selected candidate; returns as add()
  const RunConfig* chosen() const;                   // the selected candidate; nullptr: none

  const std::vector<RunConfig>& candidates() const { return candidates_; }
  void setRoom(int runs);  // number of runs that can train beside run A at once
  bool inGroups() const { return static_cast<int>(candidates_.size()) > room_; }
  int steps() const;  // steps of each group
  // How the candidates train and what is missing for a verdict, in a sentence or two.
  QString words() const;

 signals:
  void changed();

 private:
  QString refusal(const RunConfig& candidate, int instead) const;  // `instead`: row to replace; -1: one more candidate
  void remove();
  int rowHeight() const;
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
