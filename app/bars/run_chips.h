// The open runs as coloured letters: a click makes one active, a menu beside them adds and removes runs.
#pragma once

#include <QString>
#include <QWidget>
#include <vector>

class QMenu;
class QToolButton;

namespace moescope {

class RunChips : public QWidget {
  Q_OBJECT

 public:
  struct Run {
    QString letter;
    int color = 0;  // index of seriesColor
    QString name;
    QString differs;   // setting that differs from run A: "precision.experts mxfp8_rceil"; empty if there is none
                       // or this is run A
    QString progress;  // "120 of 400" while the run catches up with run A; empty if it is level
    bool operator==(const Run&) const = default;
  };

  explicit RunChips(QWidget* parent = nullptr);

  void showRuns(const std::vector<Run>& runs, int active);
  struct Parts {
    bool names = true;  // show the names of the runs
    bool words = true;  // show the word "Compare"
  };
  void setShown(Parts parts);          // hidden parts are in the tool tips
  void setLive(bool live);             // whether runs can be added and removed
  void showFile(const QString& path);  // chip for a file of tensors beside the runs; empty: none
  bool hasFile() const { return !path_.isEmpty(); }

 signals:
  void changed();  // the shown parts and therefore the width have changed
  void activated(int run);
  void fileActivated();
  void menuWanted(QMenu* menu);  // asks to fill the menu that adds and removes runs

 private:
  void drawChips();

  std::vector<Run> runs_;
  int active_ = 0;
  bool live_ = false;
  Parts parts_;
  std::vector<QToolButton*> chips_;
  QString path_;
  QToolButton* file_;
  QToolButton* compare_;
  QMenu* menu_;
};

}  // namespace moescope
