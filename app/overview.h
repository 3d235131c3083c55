// The Overview workspace: one dock per panel, their default arrangement, and what can be done with each panel.
#pragma once

#include <QDockWidget>
#include <QList>
#include <QMainWindow>
#include <QVariantMap>

#include "widgets/panel.h"
#include "widgets/selection.h"

namespace moescope {

class Overview : public QObject {
  Q_OBJECT

 public:
  Overview(QMainWindow* window, Selection* selection);

  void arrange();   // the default layout
  void shareOut();  // the same room for all panels of a row
  const QList<QDockWidget*>& docks() const { return docks_; }
  QList<Panel*> panels() const;
  Panel* panel(const QString& object_name) const;  // nullptr: none

  QVariantMap panelStates() const;
  void restorePanelStates(const QVariantMap& states);

  // Write what a panel shows; throw std::runtime_error when the file cannot be written.
  static void savePicture(QWidget* widget, const QString& path);
  static void saveTable(const Panel& panel, const QString& path);

 signals:
  void readoutChanged(QString text);
  void failed(QString message);
  void saved(QString path);

 private:
  QDockWidget* addDock(Panel* panel, const char* object_name);
  void addLoss();
  void addExpertLoad();
  void addLoadOverTime();
  void addBalance();
  void addAllToAll();
  void addScaleHistogram();
  void addQuantError();
  void addTimeline();
  QMenu* panelMenu(QDockWidget* dock, Panel* panel);
  void askAndSavePicture(Panel* panel);
  void askAndSaveTable(Panel* panel);

  QMainWindow* window_;
  Selection* selection_;
  QList<QDockWidget*> docks_;
  QDockWidget *loss_, *expert_load_, *load_over_time_, *balance_, *all_to_all_, *scale_histogram_, *quant_error_;
  QDockWidget* timeline_;
};

}  // namespace moescope
