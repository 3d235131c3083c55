// The open runs as colored letters. A click makes a run the active one; a menu beside them adds and removes runs.
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
    QString differs;   // settings that differ from run A: "precision.experts mxfp8_rceil"; empty for run A and if none
                       // differs
    QString progress;  // "120 of 400" while the run catches up with run A; empty otherwise
    bool operator==(const Run&) const = default;
  };

  explicit RunChips(QWidget* parent = nullptr);

  void showRuns(const std::vector<Run>& runs, int active);
  struct Parts {
    bool names = true;   // show the names of the runs
    bool active = true;  // show the name of the active run
    bool words = true;   // show the word beside the plus sign
  };
  void setShown(Parts parts);          // tool tips show the hidden parts
  void setLive(bool live);             // true: twins can be added and removed; false: logs can be added
  void showFile(const QString& path);  // shows a chip for a file of tensors beside the runs; empty: hides it
  bool hasFile() const { return !path_.isEmpty(); }

 signals:
  void changed();  // the shown parts have changed, and with them the width
  void activated(int run);
  void fileActivated();
  void logWanted();              // requests another log beside the open ones
  void menuWanted(QMenu* menu);  // requests that the menu be filled with the entries that add and remove runs
  void chipMenuWanted(int run, QPoint at);  // requests a menu for one run at a global position

 private:
  void drawChips();

  std::vector<Run> runs_;
  int active_ = 0;
  bool live_ = false;
  Parts parts_;
  std::vector<QToolButton*> chips_;
  QString path_;
  QToolButton* file_;
  QToolButton* add_;
  QMenu* menu_;
};

}  // namespace moescope
