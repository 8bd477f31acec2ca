BEGIN TRANSACTION;
CREATE TABLE device(id INTEGER PRIMARY KEY, uuid TEXT UNIQUE, label TEXT, name TEXT);
INSERT INTO "device" VALUES(1,'GPU-00000000','0','NVIDIA H100 80GB HBM3');
CREATE TABLE device_time(time INTEGER, device INTEGER, span_s REAL, active_s REAL, idle_held_s REAL,
    utilization_percent REAL, used_bytes INTEGER, power_w REAL, PRIMARY KEY(time, device)) WITHOUT ROWID;
INSERT INTO "device_time" VALUES(1763640000,1,3600.0,3600.0,0.0,95.0,10737418240,400.0);
CREATE TABLE finding(kind TEXT, place TEXT, about TEXT, since REAL, until REAL, title TEXT, remedy TEXT,
    PRIMARY KEY(kind, place, about, since)) WITHOUT ROWID;
INSERT INTO "finding" VALUES('ecc','GPU 0','',1763640000.0,1763640000.0,'2 memory errors that ECC could not correct','Programs that ran then may have wrong results. Reset the GPU; if the number grows again, have it examined.');
CREATE TABLE holder(id INTEGER PRIMARY KEY, user TEXT, job TEXT, UNIQUE(user, job));
INSERT INTO "holder" VALUES(1,'ana','4711');
CREATE TABLE holder_time(time INTEGER, device INTEGER, holder INTEGER, active_s REAL, idle_held_s REAL,
    held_bytes INTEGER, PRIMARY KEY(time, device, holder)) WITHOUT ROWID;
INSERT INTO "holder_time" VALUES(1763640000,1,1,3600.0,0.0,21474836480);
CREATE TABLE rolled(until INTEGER);
INSERT INTO "rolled" VALUES(1763467200);
COMMIT;
PRAGMA user_version = 1;
