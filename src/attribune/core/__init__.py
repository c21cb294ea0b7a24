"""What every room uses: settings, files, logs, the console, this process."""
