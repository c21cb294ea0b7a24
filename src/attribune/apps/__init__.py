"""What people use: command line, service, playground, reports, doctor, estimators of scikit-learn."""
