// States what the names of a row of the account mean: the figure, which number is the layer and which the expert, and
// the unit of the values. The result is a rule of a mapping file (core/logs/tag_map.h).
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QWidget>
#include <vector>

#include "core/logs/account.h"

class QButtonGroup;
class QVBoxLayout;

namespace moescope {

class MeaningEditor : public QWidget {
  Q_OBJECT

 public:
  explicit MeaningEditor(QWidget* parent = nullptr);
  void edit(const AccountRow& row);
  bool isEmpty() const { return name_.empty(); }  // no row was chosen
  std::string rule() const;                       // a [[tag]]
  std::string ruleToLeaveOut() const;             // a [[tag]] with which the names are ignored

 private:
  void showNumbers();
  void showUnits();
  std::string pattern() const;

  std::string name_;  // of the row: "blk{layer}.e{expert}.frac"
  QLabel *title_, *evidence_;
  QComboBox* means_;
  QVBoxLayout *numbers_, *units_;
  std::vector<QComboBox*> number_means_;  // in the order of the numbers in the name
  QButtonGroup* unit_;
};

}  // namespace moescope
