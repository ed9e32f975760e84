"""Sends mail as MOSBENCH does: mail.py PORT CLIENTS CONNECTIONS

Every client is a process with a user of its own to send to. It opens CONNECTIONS connections, one after the
other, and sends 10 messages of 20 bytes in each.
"""

import smtplib
import sys
from multiprocessing import Process

MESSAGES = 10
TEXT = "A mail of 20 bytes\r\n"


def send(port, user, connections):
    for _ in range(connections):
        with smtplib.SMTP("127.0.0.1", port, local_hostname="localhost", timeout=60) as server:
            for _ in range(MESSAGES):
                server.sendmail("sender@localhost", [f"{user}@localhost"], TEXT)


def main():
    port, clients, connections = map(int, sys.argv[1:])
    processes = [
        Process(target=send, args=(port, f"user{number}", connections))
        for number in range(1, clients + 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    failed = sum(process.exitcode != 0 for process in processes)
    if failed:
        sys.exit(f"mail.py: {failed} of {clients} clients failed")


if __name__ == "__main__":
    main()
