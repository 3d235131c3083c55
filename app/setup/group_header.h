// The header of a group of settings: its name, a note, and whether all its settings need a new run. A click folds the
// group.
#pragma once

#include <QToolButton>

namespace moescope {

class GroupHeader : public QToolButton {
 public:
  GroupHeader(const QString& title, QWidget* body, QWidget* parent = nullptr);

  void setNote(const QString& note);
  void setNeedsNewRun(bool needs);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QString note_;
  bool needs_new_run_ = false;
};

}  // namespace moescope
